package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/action"
	"cantina/api"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/spec"
)

// wrong describes the allowed values of a flag with an invalid value. Hint may be empty; value is
// the invalid part, empty = all of it.
type wrong struct{ allowed, hint, value string }

// Error returns the allowed values.
func (w *wrong) Error() string { return w.allowed }

// wrongFlag names the flag with an invalid value, and the allowed values.
func wrongFlag(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		if m := negative.FindStringSubmatch(err.Error()); m != nil {
			return failf(api.ExitUsage, "%s is not allowed: numbers must be 0 or more; see %s --help", m[1], cmd.CommandPath())
		}
		return failf(api.ExitUsage, "%v; %ssee %s --help", err, flagHint(cmd, err), cmd.CommandPath())
	}
	says := &wrong{}
	if !errors.As(err, &says) {
		says.allowed = allowedOf(bad.GetFlag().Value.Type())
	}
	if says.hint == "" {
		says.hint = "see " + cmd.CommandPath() + " --help"
	}
	return failf(api.ExitUsage, "%s %s, not %q; %s", flagName(bad.GetFlag()), says.allowed,
		cmp.Or(says.value, bad.GetValue()), says.hint)
}

// negative finds a negative number that was parsed as a flag.
var negative = regexp.MustCompile(`^unknown shorthand flag: '\d' in (-\d+)$`)

// flagHint names the flag that an unknown one is probably meant to be.
func flagHint(cmd *cobra.Command, err error) string {
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return ""
	}
	var names []string
	add := func(f *pflag.Flag) { names = append(names, "--"+f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if other := otherFlag(none.GetSpecifiedName()); other != "" {
		return other + "; "
	}
	if h := text.DidYouMean("--"+none.GetSpecifiedName(), names); h != "" {
		return h + "; "
	}
	return ""
}

// otherFlag describes how a flag of another tool is written here.
func otherFlag(name string) string {
	return map[string]string{
		"all-containers": "the output of a service or job has all of its containers",
		"container":      "an instance has one container; name the instance: web/0",
		"ignore-errors":  "cells that do not answer are named, and the output of the others is printed",
		"namespace":      "use --domain", "n": "use --domain, or --number",
		"all-namespaces": "all domains are listed without --domain",
		"kubeconfig":     "use --context, or cantina context set",
		"sort-by":        "use --sort with top, or -o json with jq",
		"grace-period":   "use --grace with a duration, like 5s",
		"replicas":       "use cantina service scale SERVICE N",
		"format":         "use --template",
	}[name]
}

// flagName is a flag in all its spellings.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// allowedOf returns the allowed values of flags that the library parses.
func allowedOf(kind string) string {
	switch kind {
	case "bool":
		return "must be true or false"
	case "stringToString":
		return "must be NAME=VALUE, several separated by commas"
	case "stringSlice":
		return "must be a value, several separated by commas; quote a whole value only"
	}
	return "must be another " + kind
}

// ofServer names the flag whose value a server refused (the server names the field of the
// request); other errors are unchanged.
func ofServer(cmd *cobra.Command, err error) error {
	var remote *api.Error
	if cmd == nil || !errors.As(err, &remote) || remote.Code != "invalid" || remote.Detail.Field == "" {
		return err
	}
	field := remote.Detail.Field
	name := strings.ReplaceAll(field[strings.LastIndex(field, ".")+1:], "_", "-")
	f := cmd.Flags().Lookup(name)
	if f == nil || !f.Changed {
		return err
	}
	says := strings.TrimSuffix(strings.TrimPrefix(remote.Message, field+": "), ": "+fault.ErrInvalid.Error())
	says = strings.TrimPrefix(says, strconv.Quote(f.Value.String())+": ")
	if h := remote.Detail.Hint; h != "" {
		says += "; " + h
	}
	return failf(remote.Exit, "%s %q: %s", flagName(f), f.Value.String(), says)
}

// durationFlag reads durations as spec files do: with a unit, also d and w; 0 has none.
// The least that is allowed may be more than 0.
type durationFlag struct {
	d     *time.Duration
	least time.Duration
}

// oneOf refuses two flags that exclude each other.
func oneOf(cmd *cobra.Command, a, b string) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
			return failf(api.ExitUsage, "--%s and --%s exclude each other; give one of them", a, b)
		}
		if before == nil {
			return nil
		}
		return before(cmd, args)
	}
}

// durationVar adds a flag for a duration that has its own value type.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var(&durationFlag{d: to}, name, usage)
}

// longerVar is durationVar for one that must be longer than 0.
func longerVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var(&durationFlag{d: to, least: 1}, name, usage)
}

// Set implements pflag.Value.
func (f *durationFlag) Set(s string) error {
	d, ok := spec.ParseDuration(s)
	if s == "0" {
		d, ok = 0, true
	}
	if !ok {
		return &wrong{allowed: "must be a duration like 10s"}
	}
	if d < f.least {
		return &wrong{allowed: "must be a duration longer than 0"}
	}
	*f.d = d
	return nil
}

// String implements pflag.Value.
func (f *durationFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}

// Type implements pflag.Value.
func (f *durationFlag) Type() string { return "duration" }

// sizeFlag reads sizes as spec files do.
type sizeFlag struct {
	bytes *int64
	least int64
}

// Set implements pflag.Value.
func (f *sizeFlag) Set(s string) error {
	v, ok := spec.ParseSize(s)
	if !ok {
		return &wrong{allowed: "must be a size like 64Mi"}
	}
	if v < f.least {
		return &wrong{allowed: "must be at least " + spec.FormatSize(f.least)}
	}
	*f.bytes = v
	return nil
}

// String implements pflag.Value.
func (f *sizeFlag) String() string {
	if f.bytes == nil || *f.bytes == 0 {
		return ""
	}
	return spec.FormatSize(*f.bytes)
}

// Type implements pflag.Value.
func (f *sizeFlag) Type() string { return "size" }

// cpuFlag reads processors as spec files do: 0.5 or 500m.
type cpuFlag struct{ milli *int }

// Set implements pflag.Value.
func (f *cpuFlag) Set(s string) error {
	v, ok := spec.ParseCPU(s)
	if !ok {
		return &wrong{allowed: "must be a number of processors like 0.5 or 500m"}
	}
	*f.milli = v
	return nil
}

// String implements pflag.Value.
func (f *cpuFlag) String() string {
	if f.milli == nil || *f.milli == 0 {
		return ""
	}
	return fmt.Sprintf("%dm", *f.milli)
}

// Type implements pflag.Value.
func (f *cpuFlag) Type() string { return "cpu" }

// numberFlag reads a whole number from least to most.
type numberFlag[N int | int32 | int64] struct {
	n           *N
	least, most int64
}

// unbounded is the most of a number that has no most.
const unbounded = math.MaxInt64

// numberVar adds a flag for a whole number from least to most.
func numberVar[N int | int32 | int64](f *pflag.FlagSet, to *N, name, short string, value N, least, most int64,
	usage string) {
	*to = value
	f.VarP(&numberFlag[N]{to, least, most}, name, short, usage)
}

// Set implements pflag.Value.
func (f *numberFlag[N]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < f.least || n > f.most || int64(N(n)) != n {
		if f.most >= math.MaxInt32 {
			return &wrong{allowed: fmt.Sprintf("must be a whole number, at least %d", f.least)}
		}
		return &wrong{allowed: fmt.Sprintf("must be a whole number from %d to %d", f.least, f.most)}
	}
	*f.n = N(n)
	return nil
}

// String implements pflag.Value.
func (f *numberFlag[N]) String() string {
	if f.n == nil {
		return "0"
	}
	return fmt.Sprint(*f.n)
}

// Type implements pflag.Value.
func (f *numberFlag[N]) Type() string { return "int" }

// choice finds one of the given words, in any case.
func choice(words []string, s string) (string, error) {
	if i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, s) }); i >= 0 {
		return words[i], nil
	}
	return "", &wrong{allowed: "must be " + either(words), hint: text.DidYouMean(s, words), value: s}
}

// wordsOf returns the words of all states from first to last.
func wordsOf[S interface {
	~int | ~uint8
	fmt.Stringer
}](first, last S) []string {
	var out []string
	for s := first; s <= last; s++ {
		out = append(out, s.String())
	}
	return out
}

// either lists words: "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// choiceFlag parses one of the given words.
type choiceFlag struct {
	to    *string
	words []string
}

// choiceVar adds a flag whose value is one of the given words.
func choiceVar(f *pflag.FlagSet, to *string, name, short, value string, words []string, usage string) {
	*to = value
	f.VarP(&choiceFlag{to, words}, name, short, usage)
}

// Set implements pflag.Value.
func (f *choiceFlag) Set(s string) error {
	w, err := choice(f.words, s)
	if err == nil {
		*f.to = w
	}
	return err
}

// String implements pflag.Value.
func (f *choiceFlag) String() string {
	if f.to == nil {
		return ""
	}
	return *f.to
}

// Type implements pflag.Value.
func (f *choiceFlag) Type() string { return "string" }

// choicesFlag parses several of the given words, separated by commas or in repeated flags.
type choicesFlag struct {
	to    *[]string
	words []string
}

// choicesVar adds a flag whose value is a list of the given words.
func choicesVar(f *pflag.FlagSet, to *[]string, name string, words []string, usage string) {
	f.Var(&choicesFlag{to, words}, name, usage)
}

// Set implements pflag.Value.
func (f *choicesFlag) Set(s string) error {
	var all []string
	for _, one := range strings.Split(s, ",") {
		w, err := choice(f.words, one)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	*f.to = append(*f.to, all...)
	return nil
}

// String implements pflag.Value.
func (f *choicesFlag) String() string {
	if f.to == nil {
		return ""
	}
	return strings.Join(*f.to, ",")
}

// Type implements pflag.Value.
func (f *choicesFlag) Type() string { return "strings" }

// volumeFlag parses volumes of repeated flags.
type volumeFlag struct{ to *[]action.Volume }

// Set implements pflag.Value.
func (f *volumeFlag) Set(s string) error {
	v, err := action.ParseVolume(s)
	if err != nil {
		return &wrong{allowed: "must be HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths, like /srv/data:/data; " +
			"/proc, /sys and /dev belong to the container"}
	}
	*f.to = append(*f.to, v)
	return nil
}

// String implements pflag.Value.
func (f *volumeFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *volumeFlag) Type() string { return "volume" }

// userFlag is the user of a program.
type userFlag struct{ text *string }

// Set implements pflag.Value.
func (f *userFlag) Set(s string) error {
	if _, err := action.ParseUser(s); err != nil {
		return &wrong{allowed: fmt.Sprintf("must be a user name, or a uid or uid:gid of numbers from 0 to %d",
			uint32(action.MaxID))}
	}
	*f.text = s
	return nil
}

// String implements pflag.Value.
func (f *userFlag) String() string {
	if f.text == nil {
		return ""
	}
	return *f.text
}

// Type implements pflag.Value.
func (f *userFlag) Type() string { return "string" }
