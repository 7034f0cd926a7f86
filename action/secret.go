package action

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Secret replaces a value that must not be shown.
const Secret = "[secret]"

// Format prints a variable without its value, with every verb: environments contain passwords, and
// a log or an error with a workload must not reveal them.
func (v Variable) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprint(s, v.Name+"="+Secret) // fmt has no use for an error
}

// SecretFile is a variable whose value is the content of a file of the cell. Specs, plans, events and rows
// have the name of the file only.
type SecretFile struct {
	Name string
	// File is relative to the directory of the workload's domain in the cell's directory of secrets.
	File string
}

// MaxSecrets is how many secrets a workload may have.
const MaxSecrets = 100

// ErrSecret reports a secret that no cell can have.
var ErrSecret = errors.New("not a valid secret")

// CheckSecrets refuses names that no program can be started with, names that are also in env, and paths that
// leave their directory.
func CheckSecrets(secrets []SecretFile, env []Variable) error {
	var errs []error
	bad := func(s *SecretFile, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%.60s: %w: %s", s.Name, ErrSecret, fmt.Sprintf(format, args...)))
	}
	if len(secrets) > MaxSecrets {
		errs = append(errs, fmt.Errorf("%d secrets, at most %d: %w", len(secrets), MaxSecrets, ErrSecret))
	}
	for i := range secrets {
		s := &secrets[i]
		switch {
		case s.Name == "" || strings.ContainsAny(s.Name, "=\x00"):
			bad(s, "the name of a variable must not be empty or contain '='")
		case slices.ContainsFunc(secrets[:i], func(o SecretFile) bool { return o.Name == s.Name }):
			bad(s, "there are two of this name")
		case slices.ContainsFunc(env, func(v Variable) bool { return v.Name == s.Name }):
			bad(s, "env has a variable of this name too; remove one")
		case len(s.File) > 1024 || strings.ContainsRune(s.File, 0) || !isBelow(s.File):
			bad(s, "the path %.100q must be relative, below the cell's directory of secrets, without ..", s.File)
		}
	}
	return errors.Join(errs...)
}

// isBelow reports whether a path leads to something below its directory, unless a link is on the way.
func isBelow(file string) bool {
	return !slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return part == "" || part == "." || part == ".."
	})
}

var (
	credentials = regexp.MustCompile(`(://)[^/\s?#"']*@`)
	query       = regexp.MustCompile(`(://[^\s?#"']*)\?[^\s#"']+`)
)

// Shown is a text as it may be shown: each URL in it, of a download, a callback or an
// argument, without its credentials and its query, which often sign it.
func Shown(text string) string {
	return query.ReplaceAllString(credentials.ReplaceAllString(text, "${1}"+Secret+"@"), "${1}?"+Secret)
}
