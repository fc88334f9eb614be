package config

import (
	"context"
	"errors"
	"maps"

	"github.com/spf13/pflag"
)

// Load reads the settings from the command line, the environment and the file that one of the two names. The error joins everything that is wrong, each
// problem with its place; what could be read is returned beside it, so that the caller can look at the rest too. The end of ctx gives up a file that does not answer.
func Load(ctx context.Context, fs *pflag.FlagSet, env Environment) (*Config, error) {
	flags, problems := fromFlags(fs)
	variables, wrong := general(ctx, env)
	problems = append(problems, wrong...)

	c := &Config{}
	if _, err := fill(c, defaults().only(Run), variables.only(Run), flags.only(Run)); err != nil {
		return c, errors.Join(append(problems, err)...)
	}
	f := &file{top: newLayer()}
	if c.File != "" {
		f = readFile(ctx, c.File)
		problems = append(problems, f.problems...)
	}
	origins, err := fill(c, defaults().only(Run, Process), f.top.only(Process), variables.only(Run, Process), flags.only(Run, Process))
	if err != nil {
		return c, errors.Join(append(problems, err)...)
	}
	sources, wrong := f.sources(ctx, env, variables, flags)
	c.Sources, c.origins = sources, origins
	c.unreadable = len(problems)+len(wrong) > 0
	for i := range sources {
		wrong = append(wrong, sources[i].problems()...)
	}
	wrong = append(wrong, flags.shared(len(sources))...)
	return c, errors.Join(append(problems, wrong...)...)
}

// refused joins what layers could not take.
func refused(layers ...layer) map[string]bool {
	all := map[string]bool{}
	for _, l := range layers {
		maps.Copy(all, l.refused)
	}
	return all
}

// sources lays the layers of each source over each other. A file without a list, or none at all, has one source without a name.
func (f *file) sources(ctx context.Context, env Environment, variables, flags layer) (sources []Source, problems []error) {
	entries := f.entries
	if !f.listed {
		entries = []entry{{own: newLayer()}}
	}
	for _, e := range entries {
		own := newLayer()
		if e.name != "" {
			var wrong []error
			own, wrong = ofSource(ctx, env, e.name, f.wants)
			problems = append(problems, wrong...)
		}
		s := Source{Name: e.name}
		origins, err := fill(&s, defaults().only(PerSource), f.top.only(PerSource), variables.only(PerSource), e.own, own, flags.only(PerSource))
		if err != nil {
			return nil, append(problems, err)
		}
		s.origins, s.entry, s.illegible = origins, f.place(e), f.illegible
		s.refused = refused(f.top, variables, e.own, own, flags)
		sources = append(sources, s)
	}
	return sources, append(problems, strangers(env, sources, !f.illegible && !f.nameless)...)
}
