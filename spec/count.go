package spec

import (
	"bytes"
	"regexp"
)

// MaxValues limits the values (keys, texts, lists and mappings) of the spec files of one request:
// each costs some hundred bytes and a microsecond before it is checked.
const MaxValues = 1_000_000

// header ends a line that begins a block of text, behind a key or a dash.
var header = regexp.MustCompile(`(^|[:-] +)[|>][-+0-9]{0,2}$`)

// CountValues returns the maximum number of values in a YAML text, before any is built; it ends
// when they are more than MaxValues. Blocks of text, such as scripts, count as one if they
// certainly are blocks; otherwise they are counted.
func CountValues(data []byte) int {
	n := 0
	block := -1     // the column that a line of a block of text is right of; -1 = none
	certain := true // that no quote and no bracket is open from an earlier line
	for len(data) > 0 && n <= MaxValues {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		line = bytes.TrimRight(line, " \r")
		text := bytes.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if certain && (len(text) == 0 || block >= 0 && indent > block) {
			continue
		}
		block = -1
		if certain && text[0] == '#' {
			continue
		}
		n++
		var brackets, single, double int
		for i := 0; i < len(text) && n <= MaxValues; i++ {
			switch text[i] {
			case '-':
				n++
			case ',', ':', '?': // a key and a value, or a value and the mapping that its key begins
				n += 2
			case '[', '{':
				n += 2
				brackets++
			case ']', '}':
				brackets--
			case '\'':
				single++
			case '"':
				double++
			case '\\':
				double++ // it may take a quote's meaning
			}
		}
		plain := brackets == 0 && single == 0 && double == 0
		certain = certain && brackets == 0 && single%2 == 0 && double%2 == 0 && !bytes.ContainsRune(text, '\\')
		if certain && plain && !bytes.ContainsAny(text, "#&*!") && header.Match(text) {
			block = column(text, indent)
		}
	}
	return n
}

// column is that of the last key or dash of a line; its values are to the right of it.
func column(text []byte, at int) int {
	for len(text) > 2 && text[0] == '-' && text[1] == ' ' {
		rest := bytes.TrimLeft(text[1:], " ")
		if rest[0] == '|' || rest[0] == '>' {
			break
		}
		at, text = at+len(text)-len(rest), rest
	}
	return at
}
