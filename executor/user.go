package executor

import "syscall"

// account is the user of a program, as the user database that it sees knows it.
type account struct {
	cred  *syscall.Credential // nil = as the cell itself
	name  string              // "" = the database does not know the number
	home  string
	shell string
}

// environment is the account's variables in the environment of a program.
func (a *account) environment() []string {
	env := []string{"HOME=" + a.home}
	if a.name == "" {
		return env
	}
	return append(env, "USER="+a.name, "LOGNAME="+a.name, "SHELL="+a.shell)
}
