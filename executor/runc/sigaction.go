package runc

import "unsafe"

// sigaction is the address of a kernel's sigaction for a system call.
func sigaction(a *[4]uintptr) uintptr { return uintptr(unsafe.Pointer(a)) }
