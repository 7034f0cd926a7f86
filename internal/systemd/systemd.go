// Package systemd reports the state of this process to systemd, for units with Type=notify ("sd_notify(3)"). Outside
// such a unit it does nothing. The wiring of cmd calls it.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Notify sends a state, such as READY=1. Without NOTIFY_SOCKET it does nothing.
func Notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// WatchdogEvery is how often WATCHDOG=1 is due: half the time that the unit allows; 0 = never.
func WatchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2
}
