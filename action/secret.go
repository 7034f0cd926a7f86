package action

import (
	"fmt"
	"regexp"
)

// Secret stands where a value is that must not be shown.
const Secret = "[secret]"

// Format prints a variable without its value, with every verb: environments carry
// passwords, and whoever prints a workload, in a log or an error, must not tell them.
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
