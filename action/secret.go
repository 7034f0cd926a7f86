package action

import (
	"fmt"
	"regexp"
)

// Secret replaces a value that must not be shown.
const Secret = "[secret]"

// Format prints a variable without its value, with every verb: environments contain passwords, and
// a log or an error with a workload must not reveal them.
func (v Variable) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprint(s, v.Name+"="+Secret) // fmt has no use for an error
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
