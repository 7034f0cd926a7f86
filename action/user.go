package action

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrUser reports a text that names no user.
var ErrUser = errors.New("bad user")

// MaxID is the highest number of a user or a group. The one above it means "leave it as it
// is" to the kernel, which for a cell that is root means root.
const MaxID = 1<<32 - 2

// User is the user that runs a program, as a text names it.
type User struct {
	Account Account
	Group   *Account // nil = the user's own groups; else that one alone
}

// Account is a user or a group: a number when Name is empty.
type Account struct {
	Name   string
	Number uint32
}

// ParseUser reads "name", "number", "name:group" or "number:number". The error wraps ErrUser
// and names the text. Whether there is such a user only its machine or image knows.
func ParseUser(text string) (User, error) {
	account, group, grouped := strings.Cut(text, ":")
	var u User
	var err error
	if u.Account, err = ParseAccount(account); err != nil && grouped {
		err = fmt.Errorf("user %q: %w", account, err)
	}
	if err == nil && grouped {
		u.Group = &Account{}
		if *u.Group, err = ParseAccount(group); err != nil {
			err = fmt.Errorf("group %q: %w", group, err)
		}
	}
	if err != nil {
		return User{}, fmt.Errorf("%w %q: %w", ErrUser, text, err)
	}
	return u, nil
}

// ParseAccount parses the name or the number of a user or a group. All digits are a number, even
// if an account has them as its name.
func ParseAccount(text string) (Account, error) {
	if strings.Trim(text, "0123456789") == "" {
		n, err := ParseID(text)
		return Account{Number: n}, err
	}
	if text[0] == '-' || text[0] == '+' {
		return Account{}, fmt.Errorf("neither a name nor a number from 0 to %d", uint32(MaxID))
	}
	for _, c := range text {
		if c <= ' ' || c == 0x7f || c == ':' || c == '/' || c == ',' {
			return Account{}, fmt.Errorf("not a name: it holds %q", c)
		}
	}
	return Account{Name: text}, nil
}

// ParseID reads the number of a user or a group.
func ParseID(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case text == "":
		return 0, errors.New("the name or number is missing")
	case err != nil || n > MaxID:
		return 0, fmt.Errorf("not a number from 0 to %d", uint32(MaxID))
	case text != strconv.FormatUint(n, 10):
		return 0, fmt.Errorf("not a number as it is written; write %d", n)
	}
	return uint32(n), nil
}
