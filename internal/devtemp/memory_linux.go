package devtemp

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"syscall"
)

// memory is where Linux has a file system in memory for everyone. Container engines make it small.
const memory = "/dev/shm"

// free is how many bytes the folder's file system can take and the machine, or the container, has memory for; 0 when that is not known, or when the folder is on a disk.
func free(folder string) uint64 {
	const tmpfs = 0x01021994
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil || fs.Type != tmpfs {
		return 0
	}
	return min(fs.Bavail*uint64(fs.Bsize), available(), limit())
}

// available is the machine's free memory, and what it can free at once.
func available() uint64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kibibytes(info, "MemAvailable:") << 10
}

// limit is what a container may use.
func limit() uint64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			return n
		}
	}
	return math.MaxUint64
}

// kibibytes finds a line such as "MemAvailable:   23177296 kB".
func kibibytes(info []byte, name string) uint64 {
	for line := range bytes.Lines(info) {
		if fields := bytes.Fields(line); len(fields) >= 2 && string(fields[0]) == name {
			n, err := strconv.ParseUint(string(fields[1]), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
