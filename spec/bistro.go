package spec

import (
	"errors"
	"fmt"
	"strings"

	"cantina/bistro"
	"cantina/plan"
)

// BistroDomain is the default domain of the jobs of a Bistro configuration file.
const BistroDomain = "bistro"

// parseBistro reads a configuration file of Bistro, for a domain. An invalid job is kept, with its
// errors.
func parseBistro(name, domain string, data []byte) (*File, error) {
	f := &File{Application: plan.Application{Domain: domain}, names: map[string]mark{}, first: mark{name, 1, 1}}
	c, err := bistro.Parse(data)
	if err == nil {
		f.Jobs, f.Warnings, err = c.Apply(domain)
	}
	var tree *bistro.Error
	problems := &Problems{}
	switch {
	case errors.As(err, &tree):
		for _, l := range tree.Lines() {
			problems.add(Problem{File: name, Path: l.Path, Text: l.Text})
		}
	case err != nil:
		problems.add(Problem{File: name, Text: strings.TrimPrefix(err.Error(), bistro.ErrConfig.Error()+": ")})
	}
	for i := range f.Jobs {
		j := &f.Jobs[i].Job
		f.names["job "+j.Name] = f.first
		for _, text := range j.Errors {
			f.Warnings = append(f.Warnings, fmt.Sprintf("job %s is invalid and starts nothing: %s", j.Name, text))
		}
	}
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return f, nil
}
