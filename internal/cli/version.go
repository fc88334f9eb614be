package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  outbox version\n  outbox version --json",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.encode(origin())
			}
			_, err := fmt.Fprintln(a.stdout, build())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// build is the version with what it was built from, by and for.
func build() string {
	o := origin()
	commit := ""
	if o.Commit != "" {
		commit = " commit " + o.Commit[:min(12, len(o.Commit))]
	}
	if o.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("outbox %s%s %s %s/%s", o.Version, commit, o.Go, o.OS, o.Arch)
}

// buildOrigin tells where the program comes from. The commit is known of a build from a checkout: its hash, its time in RFC 3339, and whether files were changed since.
type buildOrigin struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commit_time,omitempty"`
	Modified   bool   `json:"modified,omitempty"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

func origin() buildOrigin {
	o := buildOrigin{Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.take(info.Settings)
	}
	return o
}

func (o *buildOrigin) take(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			o.Commit = s.Value
		case "vcs.time":
			o.CommitTime = s.Value
		case "vcs.modified":
			o.Modified = s.Value == "true"
		}
	}
}

// version is the module's version as the go command recorded it, or the revision of a build from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
