package devtemp

import (
	"os"
	"slices"
)

// roomy is what must be free, in bytes, of the file system in memory and of the memory itself: the servers of the tests stay below a third of it.
const roomy = 6 << 30

// Folder is where to make a throw-away server's folder: in memory when the machine has much of it, else in the system's temporary folder. TMPDIR is obeyed
// when it is set.
func Folder() string {
	if os.Getenv("TMPDIR") == "" && free(memory) >= roomy {
		return memory
	}
	return os.TempDir()
}

// Folders are all that [Folder] may have returned to other processes, for who looks for what these have left behind.
func Folders() []string {
	all := []string{os.TempDir()}
	if _, err := os.Stat(memory); err == nil {
		all = append(all, memory)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
