package devpg

import (
	"fmt"
	"io"
	"os/exec"
)

// watchScript remembers the last line, the server's process id or 0, until its input ends: then this process is gone, or has no more use
// for it. $1 is the folder to remove, or empty.
const watchScript = `
pid=0
while read -r line; do pid=$line; done
if [ "$pid" != 0 ]; then
	kill -QUIT "$pid"
	tries=0
	while kill -0 "$pid" && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
	kill -KILL "$pid"
fi
[ -z "$1" ] || rm -rf -- "$1"
`

// watchdog outlives this process by a moment and takes the server with it.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startWatchdog(f *folder) (*watchdog, error) {
	remove := f.path
	if f.keep {
		remove = ""
	}
	cmd := exec.Command("/bin/sh", "-c", watchScript, "outbox-devpg-watchdog", remove)
	cmd.Dir = "/"
	detach(cmd, nil)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &watchdog{cmd, pipe}, nil
}

// guard tells which process is to end with this one; 0 is none.
func (w *watchdog) guard(pid int) error {
	_, err := fmt.Fprintln(w.pipe, pid)
	return err
}

// end lets the watchdog go. What it still guards ends now.
func (w *watchdog) end() {
	w.pipe.Close()
	w.cmd.Wait()
}
