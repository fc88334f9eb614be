package patience

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox/internal/await"
)

func TestACallIsGivenUpAfterItsLimitAndWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		begun := time.Now()
		_, err := Call(t.Context(), time.Minute, func() (int, error) { <-hang; return 1, nil })
		if silent, ok := errors.AsType[*SilentError](err); !ok || silent.Limit != time.Minute || time.Since(begun) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Call(ctx, time.Minute, func() (int, error) { <-hang; return 1, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got, err := Call(t.Context(), time.Minute, func() (int, error) { <-time.After(time.Second); return 7, io.EOF }); got != 7 || !errors.Is(err, io.EOF) {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

func TestAReadThatHangsKeepsWhatWasReadLastAndIsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var reads atomic.Int64
		a := NewAgain("first", 2*time.Second, func() (string, error) {
			switch reads.Add(1) {
			case 1:
				<-hang
				return "late", nil
			case 2:
				return "", io.EOF
			}
			return "new", nil
		})
		begun := time.Now()
		if got := a.Read(t.Context()); got != "first" || time.Since(begun) != 2*time.Second {
			t.Errorf("while it hangs: got %q after %s", got, time.Since(begun))
		}
		for range 100 {
			if got := a.Read(t.Context()); got != "first" {
				t.Errorf("while it hangs: got %q", got)
			}
		}
		if reads.Load() != 1 || time.Since(begun) != 2*time.Second {
			t.Errorf("%d reads, %s", reads.Load(), time.Since(begun))
		}
		close(hang)
		synctest.Wait()
		for _, want := range []string{"late", "new"} {
			if got := a.Read(t.Context()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whoever still waits for a writer is let go: one that comes and goes.
	t.Cleanup(func() {
		if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = w.Close()
		}
	})
	return path
}

func TestAPipeIsReadWhenItsWriterComesLater(t *testing.T) {
	t.Parallel()
	path := pipe(t)
	type result struct {
		content Content
		err     error
	}
	read := make(chan result, 1)
	go func() {
		content, err := File(t.Context(), time.Hour, path, "password", 10)
		read <- result{content, err}
	}()
	// It can be opened so only when somebody reads.
	var w *os.File
	await.Until(t, "somebody reads the pipe", func() (open bool) {
		var err error
		w, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	if _, err := w.WriteString("hunter2\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-read; r.err != nil || string(r.content.Bytes) != "hunter2\n" || r.content.Regular {
		t.Errorf("got %q, %v", r.content.Bytes, r.err)
	}
}

func TestAPipeThatNobodyWritesToIsGivenUp(t *testing.T) {
	t.Parallel()
	path := pipe(t)
	_, err := File(t.Context(), 10*time.Millisecond, path, "password", 10)
	if want := path + ": no answer within 10ms: nobody writes to that pipe, or its mount hangs"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := RegularFile(path, "password", 10); err == nil || err.Error() != path+" is no regular file: it cannot be read again" {
		t.Errorf("read again: %v", err)
	}
	if err := CheckRegular(path); err == nil {
		t.Error("a pipe is no regular file")
	}
}

func TestAFileThatIsTooLargeIsRefusedAndNotCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := File(t.Context(), time.Hour, path, "password", 10); err != nil || string(content.Bytes) != "0123456789" || !content.Regular {
		t.Errorf("got %+v, %v", content, err)
	}
	if content, err := RegularFile(path, "password", 10); err != nil || string(content) != "0123456789" {
		t.Errorf("got %q, %v", content, err)
	}
	for _, path := range []string{path, "/dev/zero"} {
		if _, err := File(t.Context(), time.Hour, path, "password", 9); err == nil || err.Error() != path+" has more than 9 bytes: that is no password" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := File(t.Context(), time.Hour, t.TempDir(), "password", 9); err == nil || !strings.Contains(err.Error(), "is a directory: name the file in it") {
		t.Errorf("got %v", err)
	}
}
