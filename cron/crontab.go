package cron

import (
	"fmt"
	"strings"
	"time"
)

// CrontabEntry is one line of a crontab that starts a program.
type CrontabEntry struct {
	Line     int      // number in the file, from 1
	Comments []string // the comment right above it, without #
	Calendar string   // "0 2 * * *" or "@daily"
	Zone     string   // of CRON_TZ; empty = the file has none
	User     string   // of the system form
	Command  string   // for the shell
	// Input is the text for the standard input, after the first % of the command.
	Input string
	Shell string // of SHELL; empty = /bin/sh
	// Delay is RANDOM_DELAY.
	Delay time.Duration
	// Environment has the other variables in force, in order.
	Environment []CrontabVariable
}

// CrontabVariable is one assignment.
type CrontabVariable struct{ Name, Value string }

// CrontabProblem is a line that cannot be taken over.
type CrontabProblem struct {
	Line int
	Text string
}

// ParseCrontab reads a crontab: environment lines, comments, and lines with a calendar and a
// command. With system, the user stands before the command, as in /etc/crontab. Calendars are not
// checked here. Lines that no schedule can express are problems.
func ParseCrontab(text string, system bool) ([]CrontabEntry, []CrontabProblem) {
	t := &crontab{system: system}
	for n, l := range strings.Split(text, "\n") {
		t.line(n+1, strings.TrimSpace(strings.TrimSuffix(l, "\r")))
	}
	return t.entries, t.problems
}

// crontab is a file that is being read.
type crontab struct {
	system   bool
	entries  []CrontabEntry
	problems []CrontabProblem
	comments []string
	now      CrontabEntry // the settings in force
}

func (t *crontab) problem(line int, format string, args ...any) {
	t.problems = append(t.problems, CrontabProblem{line, fmt.Sprintf(format, args...)})
}

func (t *crontab) line(n int, text string) {
	switch {
	case text == "":
		t.comments = nil
		return
	case text[0] == '#':
		t.comments = append(t.comments, strings.TrimSpace(strings.TrimLeft(text, "#")))
		return
	}
	defer func() { t.comments = nil }()
	if name, value, ok := assignment(text); ok {
		t.set(n, name, value)
		return
	}
	text = strings.TrimPrefix(text, "-") // SUSE: no entry in the log
	count := 5
	if text != "" && text[0] == '@' {
		count = 1
	}
	if t.system {
		count++
	}
	words, command := leading(text, count)
	if command == "" {
		form := "five fields or a word like @daily"
		if t.system {
			form += ", a user"
		}
		t.problem(n, "not understood: a line has %s and a command", form)
		return
	}
	e := t.now
	e.Line, e.Comments = n, t.comments
	e.Environment = append([]CrontabVariable(nil), e.Environment...)
	if t.system {
		e.User, words = words[count-1], words[:count-1]
	}
	e.Calendar = strings.Join(words, " ")
	if strings.EqualFold(e.Calendar, "@reboot") {
		t.problem(n, "@reboot is not a time: a program that always runs is a service")
		return
	}
	e.Command, e.Input = percent(command)
	t.entries = append(t.entries, e)
}

// set handles NAME=value.
func (t *crontab) set(n int, name, value string) {
	switch name {
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		t.problem(n, "%s is not taken over: output is not mailed, see cantina logs", name)
	case "CRON_TZ":
		t.now.Zone = value
	case "SHELL":
		t.now.Shell = value
	case "RANDOM_DELAY":
		minutes, ok := digits(value)
		if !ok {
			t.problem(n, "RANDOM_DELAY: %q is not a number of minutes", value)
			return
		}
		t.now.Delay = time.Duration(minutes) * time.Minute
	case "START_HOURS_RANGE":
		t.problem(n, "START_HOURS_RANGE is not taken over: write the hours into the line")
	default:
		for i, v := range t.now.Environment {
			if v.Name == name {
				t.now.Environment = append(append([]CrontabVariable(nil), t.now.Environment[:i]...), t.now.Environment[i+1:]...)
				break
			}
		}
		t.now.Environment = append(t.now.Environment, CrontabVariable{name, value})
	}
}

// assignment reads NAME=value, NAME = "value" and 'value'.
func assignment(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(text, "=")
	name, value = unquoted(strings.TrimSpace(name)), unquoted(strings.TrimSpace(value))
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", "", false
	}
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return "", "", false
		}
	}
	return name, value, true
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// leading splits the first n words from the rest.
func leading(text string, n int) (words []string, rest string) {
	for rest = text; len(words) < n && rest != ""; rest = strings.TrimLeft(rest, " \t") {
		i := strings.IndexAny(rest, " \t")
		if i <= 0 { // no space, or one at the begin: no word
			i = len(rest)
		}
		words, rest = append(words, rest[:i]), rest[i:]
	}
	return words, rest
}

// percent splits a command from its input: the first % ends it, each further one is a new line,
// and \% is a %.
func percent(text string) (command, input string) {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			i++
			*last += "%"
		case text[i] == '%':
			parts = append(parts, "")
		default:
			*last += text[i : i+1]
		}
	}
	if len(parts) > 1 {
		input = strings.Join(parts[1:], "\n") + "\n"
	}
	return strings.TrimSpace(parts[0]), input
}
