package relay

import (
	"fmt"
	"strings"
)

// ranges writes lanes, in ascending order, as people do: "0-3 7".
func ranges(lanes []int32) string {
	var b strings.Builder
	for i := 0; i < len(lanes); {
		last := i
		for last+1 < len(lanes) && lanes[last+1] == lanes[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, lanes[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", lanes[last])
		}
		i = last + 1
	}
	return b.String()
}
