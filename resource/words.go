package resource

import (
	"strconv"
	"strings"
)

// portPrefix begins the names of ports; it has a blank, which no other name can have.
const portPrefix = "port "

// Port is the name of a port of a machine as a resource with the amount one.
func Port(number int) string { return portPrefix + strconv.Itoa(number) }

// Words formats an amount as in a spec file: "memory 512Mi", "cpu 500m", "gpu 1", and for a port
// only its name: "port 8130".
func Words(name string, amount int) string {
	if strings.HasPrefix(name, portPrefix) {
		return name
	}
	return Key(name) + " " + Text(name, amount)
}

// Key is the key of a spec file for the resource: memory, disk and cpu for MemoryMB, DiskMB and
// CPUMilli, and its name for any other.
func Key(name string) string {
	switch name {
	case MemoryMB:
		return "memory"
	case DiskMB:
		return "disk"
	case CPUMilli:
		return "cpu"
	}
	return name
}

// Text is the value of that key.
func Text(name string, amount int) string {
	n := strconv.Itoa(amount)
	switch name {
	case MemoryMB, DiskMB:
		switch {
		case amount == 0:
			return n
		case amount%(1024*1024) == 0:
			return strconv.Itoa(amount/1024/1024) + "Ti"
		case amount%1024 == 0:
			return strconv.Itoa(amount/1024) + "Gi"
		}
		return n + "Mi"
	case CPUMilli:
		if amount%1000 == 0 {
			return strconv.Itoa(amount / 1000)
		}
		return n + "m"
	}
	return n
}
