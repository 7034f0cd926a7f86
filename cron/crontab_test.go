package cron

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAdviceForARangeThatWraps: the advice parses and chooses the values of the range, for every
// range and step of every column, and keeps names.
func TestAdviceForARangeThatWraps(t *testing.T) {
	parse := func(col int, kind lineKind, text string) (uint64, error) {
		f := lineField{text: text, column: 1}
		p := fieldParser{lineKind: kind, col: col, out: &f}
		err := p.parse()
		return f.mask, err
	}
	n := 0
	for col, kind := range lineKinds() {
		top := (&fieldParser{lineKind: kind, col: col}).top()
		width := top - kind.min + 1
		for from := kind.min; from <= kind.max; from++ {
			for to := kind.min; to <= kind.max; to++ {
				for step := range 8 {
					text := fmt.Sprintf("%d-%d", from, to)
					if step > 0 {
						text += fmt.Sprintf("/%d", step)
					}
					_, err := parse(col, kind, text)
					if err == nil {
						continue
					}
					var p *ParseError
					if !errors.As(err, &p) || !strings.HasPrefix(p.Hint, "write ") {
						t.Fatalf("%s %s: %v", kind.name, text, err)
					}
					start := kind.min + (from-kind.min)%width
					length := (to-start+width)%width + 1
					var want uint64
					for i := 0; i < length; i += max(step, 1) {
						want |= 1 << uint(kind.min+(start-kind.min+i)%width)
					}
					n++
					if got, err := parse(col, kind, strings.TrimPrefix(p.Hint, "write ")); err != nil || got != want {
						t.Fatalf("%s %s: %q chooses %b, want %b (%v)", kind.name, text, p.Hint, got, want, err)
					}
				}
			}
		}
	}
	if n < 10000 {
		t.Errorf("only %d ranges", n)
	}
	for text, want := range map[string]string{
		"0 0 * * fri-mon": "write FRI-SAT,SUN-MON", "0 0 * * FRI-MON/2": "write FRI,SUN", "0 22-2/2 * * *": "write 22,0-2/2",
		"0 0 * * 7-1": "write 0-1", "0 0 * NOV-FEB *": "write NOV-DEC,JAN-FEB", "0 0 28-3 * *": "write 28-31,1-3",
		"0 0 * * sat-mon": "write SAT,SUN-MON",
	} {
		_, _, err := ParseLine(text, LineOptions{Zone: time.UTC})
		var p *ParseError
		if !errors.As(err, &p) || p.Hint != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestErrorsShowHowFieldsAreRead: of lines in the forms of Quartz, of a year and of a whole crontab.
func TestErrorsShowHowFieldsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"0 0 1 1 * 2027": "day of week (column 11): 2027 is not between 0 and 7; six fields are read as second 0, " +
			"minute 0, hour 1, day of month 1, month *, day of week 2027; a year cannot be given in a line",
		"0 2 * * * /usr/bin/backup": "day of week (column 11): \"usr/bin/backup\" is not a step; " +
			"six fields are read as second 0, minute 2, hour *, day of month *, month *, day of week /usr/bin/backup; " +
			"a line has no command: it is the command of the task or job",
		"* * * * * root /bin/x": "7 fields instead of 5 or 6; it is read as minute *, hour *, day of month *, month *, " +
			"day of week *, and the rest is no part of a line: the program is the command of the task or job",
		"0 0 12 1 * ? 2020": "7 fields instead of 5 or 6; with seconds first, it is read as second 0, minute 0, hour 12, " +
			"day of month 1, month *, day of week ?, and 2020 is too much; a year cannot be given in a line",
		"0 0 12 ? * 2": "day of week (column 12): in a line with ?, the number 2 may mean another day: " +
			"here 0 and 7 are Sunday, in Quartz 1 is; write names like MON; six fields are read as second 0, minute 0, " +
			"hour 12, day of month ?, month *, day of week 2",
		"0 30 25 * * *": "hour (column 6): 25 is not between 0 and 23; six fields are read as second 0, minute 30, " +
			"hour 25, day of month *, month *, day of week *",
		"30 25 * * *": "hour (column 4): 25 is not between 0 and 23",
		"1 2 3":       "3 fields instead of 5 or 6; minute, hour, day of month, month, day of week; six with seconds first",
	} {
		_, _, err := ParseLine(text, LineOptions{Zone: time.UTC})
		if err == nil || strings.TrimPrefix(err.Error(), ": ") != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, err, want)
		}
	}
	for _, text := range []string{"0 0 12 ? * MON", "0 0 12 ? * MON#2", "0 12 ? * 2", "0 0 12 1 * ?", "@DAILY",
		"@Every 90s", "@Midnight"} {
		if _, _, err := ParseLine(text, LineOptions{Zone: time.UTC}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseCrontab(t *testing.T) {
	entries, problems := ParseCrontab(`# the file
MAILTO=root
SHELL = /bin/bash
PATH="/usr/bin:/bin"

# backup of
#   all
0 2 * * *	/usr/bin/backup --to 'a b' \% x%line 1%line 2
PATH=/bin
A_B='c "d"'
CRON_TZ=Europe/Berlin
@Daily  echo hi
-*/5 * * * * test a = b
@reboot /bin/x
5 4 * *
RANDOM_DELAY=7
1 2 3 4 5 x
`, false)
	want := []CrontabEntry{
		{Line: 8, Comments: []string{"backup of", "all"}, Calendar: "0 2 * * *", Command: "/usr/bin/backup --to 'a b' % x",
			Input: "line 1\nline 2\n",
			Shell: "/bin/bash", Environment: []CrontabVariable{{"PATH", "/usr/bin:/bin"}}},
		{Line: 12, Calendar: "@Daily", Command: "echo hi", Shell: "/bin/bash", Zone: "Europe/Berlin",
			Environment: []CrontabVariable{{"PATH", "/bin"}, {"A_B", `c "d"`}}},
		{Line: 13, Calendar: "*/5 * * * *", Command: "test a = b", Shell: "/bin/bash", Zone: "Europe/Berlin",
			Environment: []CrontabVariable{{"PATH", "/bin"}, {"A_B", `c "d"`}}},
		{Line: 17, Calendar: "1 2 3 4 5", Command: "x", Shell: "/bin/bash", Zone: "Europe/Berlin", Delay: 7 * time.Minute,
			Environment: []CrontabVariable{{"PATH", "/bin"}, {"A_B", `c "d"`}}},
	}
	if fmt.Sprintf("%+v", entries) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", entries, want)
	}
	if got := fmt.Sprint(problems); got != "[{2 MAILTO is not taken over: output is not mailed, see cantina logs} "+
		"{14 @reboot is not a time: a program that always runs is a service} "+
		"{15 not understood: a line has five fields or a word like @daily and a command}]" {
		t.Error(got)
	}
	entries,
		problems = ParseCrontab("17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly\n@hourly nobody x\n1 2 3 4 5 root\n",
		true)
	if len(entries) != 2 || entries[0].User != "root" || entries[0].Command != "cd / && run-parts /etc/cron.hourly" ||
		entries[1].User != "nobody" ||
		entries[1].Calendar != "@hourly" || len(problems) != 1 {
		t.Errorf("%+v %v", entries, problems)
	}
}
