package action

import (
	"errors"
	"strings"
	"testing"
)

func TestUsersAreRead(t *testing.T) {
	group := func(a Account) *Account { return &a }
	for text, want := range map[string]User{
		"nobody":                {Account: Account{Name: "nobody"}},
		"0":                     {},
		"root:0":                {Account: Account{Name: "root"}, Group: group(Account{})},
		"65534:65534":           {Account: Account{Number: 65534}, Group: group(Account{Number: 65534})},
		"4294967294:4294967294": {Account: Account{Number: MaxID}, Group: group(Account{Number: MaxID})},
		"app:staff":             {Account: Account{Name: "app"}, Group: group(Account{Name: "staff"})},
		"0day":                  {Account: Account{Name: "0day"}},
		"0x0":                   {Account: Account{Name: "0x0"}},
		`CORP\ann.lee$`:         {Account: Account{Name: `CORP\ann.lee$`}},
	} {
		got, err := ParseUser(text)
		if err != nil || got.Account != want.Account || (got.Group == nil) != (want.Group == nil) || got.Group != nil &&
			*got.Group != *want.Group {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestUnknownUsersAreRefusedByName: nothing that cannot be read becomes number 0.
func TestUnknownUsersAreRefusedByName(t *testing.T) {
	for _, text := range []string{"", ":", ":0", "nobody:", "a:b:c", "-1", "+0", "0:-1", " 0", "0 ", "no body", "a\nb",
		"a\x00b", "00", "007", "0:00",
		"4294967295", "65534:4294967295", "4294967296", "4294967296:0", "99999999999", "99999999999999999999999",
		"nobody:99999999999", "../x", "a,b"} {
		got, err := ParseUser(text)
		if !errors.Is(err, ErrUser) || got != (User{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
			continue
		}
		if at := strings.Trim(text, "\x00\n "); at != "" && !strings.ContainsAny(text, "\x00\n") &&
			!strings.Contains(err.Error(), at) {
			t.Errorf("%q is not named: %v", text, err)
		}
	}
}
