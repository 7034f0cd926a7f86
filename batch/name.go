package batch

import "strings"

// A job is named within its domain, like a service or a schedule. Its key, Job.Name, is
// "domain/name": jobs of the same name in two domains have nothing in common. So is the key of a
// forest: only jobs of its domain share it.

// FullName is the key of a job or a forest, from its name within a domain.
func FullName(domain, name string) string {
	if domain == "" {
		return name
	}
	return domain + "/" + name
}

// SplitName is the inverse of FullName. No domain has a slash.
func SplitName(full string) (domain, name string) {
	domain, name, ok := strings.Cut(full, "/")
	if !ok {
		return "", full
	}
	return domain, name
}

// ShortName is the name of a job within its domain.
func (j *Job) ShortName() string {
	_, name := SplitName(j.Name)
	return name
}

// In returns a job and its forest as those of a domain. As a file has them, their names, and those
// of the jobs that the job depends on or comes after, are names within it.
func (j Job) In(domain string, f ForestSpec) (Job, ForestSpec) {
	all := func(names []string) (out []string) {
		for _, name := range names {
			out = append(out, FullName(domain, name))
		}
		return out
	}
	j.Domain, j.Name, j.Forest = domain, FullName(domain, j.Name), FullName(domain, j.Forest)
	j.DependsOn, j.After = all(j.DependsOn), all(j.After)
	if f.Name != "" {
		f.Name = FullName(domain, f.Name)
	}
	return j, f
}
