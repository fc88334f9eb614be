package devtemp

import "testing"

func TestTheMemoryThatIsAvailableIsRead(t *testing.T) {
	t.Parallel()
	const info = "MemTotal:       24684096 kB\nMemFree:        13000000 kB\nMemAvailable:   23177296 kB\n"
	for name, c := range map[string]struct {
		info string
		want uint64
	}{
		"as Linux writes it": {info, 23177296},
		"not there":          {"MemTotal: 1 kB\n", 0},
		"no number":          {"MemAvailable: much kB\n", 0},
	} {
		if got := kibibytes([]byte(c.info), "MemAvailable:"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if available() == 0 {
		t.Error("the machine is said to have no memory")
	}
}
