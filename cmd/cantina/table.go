package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// column is one column of a table.
type column[T proto.Message] struct {
	name  string
	wide  bool // only with -o wide
	whole bool // never cut: people give it to another verb or program
	// spare columns are left out, from 1 on, until the table fits a terminal. -o wide has them.
	spare int
	text  func(T) string
}

// table is how the items of one kind are printed.
type table[T proto.Message] struct {
	id      func(T) string
	columns []column[T]
	order   func([]T) []T // of a whole list; nil = as the server lists it
}

// textOfField returns the reader of a text of an item that has no message of its own.
func textOfField(name string) func(*structpb.Struct) string {
	return func(x *structpb.Struct) string { return x.Fields[name].GetStringValue() }
}

// textFields is an item that has no message of its own.
func textFields(texts map[string]string) *structpb.Struct {
	x := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, text := range texts {
		x.Fields[name] = structpb.NewStringValue(text)
	}
	return x
}

// rows prints a table without borders, one row per item. Later rows, of a watch or of a further
// page, are printed below the earlier ones.
func rows[T proto.Message](c *cli, cols []column[T], items []T, header bool) error {
	if c.tableColumns != len(cols) {
		c.tableColumns, c.spared, c.widths = len(cols), 0, nil
		if c.cuts() && c.output == "table" && len(c.columns) == 0 {
			c.spared = spared(c, cols, items, header)
		}
	}
	cols = without(cols, c.spared)
	grid := gridOf(cols, items, header)
	c.widths = widthsOf(c, cols, grid)
	note := noteOf(cols)
	for n, row := range grid {
		below := ""
		if note >= 0 && utf8.RuneCountInString(row[note]) > c.widths[note] {
			row[note], below = "…", row[note]
		}
		text := c.row(row, c.widths, header && n == 0)
		if below != "" {
			text += "\n  " + below
		}
		if err := line(c.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// cuts reports whether tables are made to fit the terminal.
func (c *cli) cuts() bool { return c.OutTTY && !c.noTrunc }

// spared is how many columns are left out so that a table fits the terminal.
func spared[T proto.Message](c *cli, cols []column[T], items []T, header bool) int {
	most := 0
	for _, col := range cols {
		most = max(most, col.spare)
	}
	for n := range most {
		fewer := without(cols, n)
		if tableWidth(widthsOf(c, fewer, gridOf(fewer, items, header))) <= c.Width() {
			return n
		}
	}
	return most
}

// without leaves out the first n spare columns.
func without[T proto.Message](cols []column[T], n int) []column[T] {
	return slices.DeleteFunc(slices.Clone(cols), func(col column[T]) bool { return col.spare > 0 && col.spare <= n })
}

// gridOf has the texts of a table.
func gridOf[T proto.Message](cols []column[T], items []T, header bool) [][]string {
	grid := make([][]string, 0, len(items)+1)
	if header {
		var names []string
		for _, col := range cols {
			names = append(names, col.name)
		}
		grid = append(grid, names)
	}
	for _, x := range items {
		var row []string
		for _, col := range cols {
			v := printable(col.text(x))
			if v == "" {
				v = "-"
			}
			row = append(row, v)
		}
		grid = append(grid, row)
	}
	return grid
}

func noteOf[T proto.Message](cols []column[T]) int {
	return slices.IndexFunc(cols, func(col column[T]) bool { return col.name == noteColumn })
}

// widthsOf are the widths of the columns: as wide as their texts, and as earlier rows had them, within
// the terminal.
func widthsOf[T proto.Message](c *cli, cols []column[T], grid [][]string) []int {
	width := slices.Clone(c.widths)
	if len(width) != len(cols) {
		width = make([]int, len(cols))
	}
	for _, row := range grid {
		for i, v := range row {
			width[i] = max(width[i], utf8.RuneCountInString(v))
		}
	}
	note := noteOf(cols)
	if c.cuts() {
		if note >= 0 && tableWidth(width) > c.Width() { // long notes make room
			width[note] = 0
			for _, row := range grid {
				if n := utf8.RuneCountInString(row[note]); n <= shortNote {
					width[note] = max(width[note], n)
				}
			}
			width[note] = max(width[note], len(noteColumn))
		}
		fit(cols, width, c.Width())
	}
	return width
}

// noteColumn has the reason: it is never cut. One that does not fit is printed on a separate line
// below its row.
const noteColumn = "NOTE"

// Columns are cut to no less than these.
const (
	leastWidth = 12
	leastNote  = 8
	shortNote  = 24 // a longer one is printed below on a narrow terminal
)

// tableWidth is how wide a table is with columns of these widths.
func tableWidth(width []int) int {
	sum := 2 * (len(width) - 1)
	for _, w := range width {
		sum += w
	}
	return sum
}

// fit narrows columns until a table has its width: first the widest of those in the
// middle, then the first, last NOTE. Those that must be whole stay, and the terminal wraps
// the row when nothing else can give way.
func fit[T proto.Message](cols []column[T], width []int, limit int) {
	over := tableWidth(width) - limit
	isNote := func(i int) bool { return cols[i].name == noteColumn }
	classes := [...]func(i int) bool{
		func(i int) bool { return i > 0 && !isNote(i) && !cols[i].whole },
		func(i int) bool { return i == 0 && !cols[i].whole },
		isNote,
	}
	for n, in := range classes {
		for ; over > 0; over-- {
			widest := -1
			for i, w := range width {
				least := max(leastWidth, utf8.RuneCountInString(cols[i].name))
				if n == len(classes)-1 {
					least = leastNote
				}
				if in(i) && w > least && (widest < 0 || w > width[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			width[widest]--
		}
	}
}

func (c *cli) row(row []string, width []int, header bool) string {
	var b strings.Builder
	for i, v := range row {
		n := utf8.RuneCountInString(v)
		if n > width[i] {
			v, n = string([]rune(v)[:width[i]-1])+"…", width[i]
		}
		pad := ""
		if i < len(row)-1 {
			pad = strings.Repeat(" ", width[i]-n+2)
		}
		b.WriteString(c.paint(v, header) + pad)
	}
	return b.String()
}
