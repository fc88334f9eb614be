package patience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Content is what a file holds.
type Content struct {
	Bytes []byte
	// Regular tells that it can be read again: a pipe cannot.
	Regular bool
}

// File reads a file, a device or a pipe, whose writer may come a moment later, and gives it up as [Call] does. One with more than most bytes is refused. what says in the error what it was to
// be: "password", "file of settings".
func File(ctx context.Context, limit time.Duration, path, what string, most int64) (Content, error) {
	content, err := Call(ctx, limit, func() (Content, error) { return read(path, what, most, 0) })
	if silent, ok := errors.AsType[*SilentError](err); ok {
		err = fmt.Errorf("%s: %w: nobody writes to that pipe, or its mount hangs", path, silent)
	}
	return content, err
}

// RegularFile reads a file for the second time and later. What is no regular file any more is refused, not waited for: a pipe's content is gone with the first reading. It waits only for the
// file system.
func RegularFile(path, what string, most int64) ([]byte, error) {
	// Without this flag opening a pipe waits for its writer.
	content, err := read(path, what, most, syscall.O_NONBLOCK)
	if err == nil && !content.Regular {
		err = notRegular(path)
	}
	return content.Bytes, err
}

// CheckRegular tells whether there is a regular file. It waits only for the file system.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	return err
}

func notRegular(path string) error {
	return fmt.Errorf("%s is no regular file: it cannot be read again", path)
}

func read(path, what string, most int64, flag int) (content Content, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|flag, 0)
	if err != nil {
		return content, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return content, err
	}
	content.Regular = info.Mode().IsRegular()
	switch {
	case info.IsDir():
		return content, fmt.Errorf("%s is a directory: name the file in it; a container engine makes one where the file that it was to mount is missing", path)
	case flag != 0 && !content.Regular:
		return content, nil
	}
	content.Bytes, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content.Bytes)) > most {
		return Content{}, fmt.Errorf("%s has more than %d bytes: that is no %s", path, most, what)
	}
	return content, err
}
