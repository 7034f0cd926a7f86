package executor

import (
	"log/slog"
	"time"

	"cantina/action"
	"cantina/image"
	"cantina/image/cache"
	"cantina/internal/run"
	"cantina/logstore"
	"cantina/resource"
)

// CgroupMode selects the control groups that are used.
type CgroupMode int

// The modes. All but Auto are for tests and for machines with broken groups.
const (
	CgroupAuto CgroupMode = iota // v2 to track, else none
	CgroupNone                   // process groups and parent-death signals only
)

// Config is the configuration of an executor. Zero values get the named defaults.
type Config struct {
	Dir      string           // data directory of the cell; required
	Capacity resource.Amounts // total of all containers
	// Reaper is the path of cantina-reaper; empty = the embedded one.
	Reaper  string
	Cgroups CgroupMode
	// KillWait is the longest time between the stop signal and KILL when the
	// deadline has passed or the cell is gone; 0 = 5 s.
	KillWait time.Duration
	// StuckAfter is how long after KILL a container that is not empty is STUCK; 0 = 5 s.
	StuckAfter time.Duration
	// RebootCommand is run, once, when a container is STUCK that must be dead: its
	// deadline has passed, or the cell ends. Empty = the cell stays, unclean.
	RebootCommand []string
	// Secrets has a directory for each domain with the files of Workload.Secrets; empty = none.
	Secrets string
	// Volumes are the directories at which and below which work may have volumes; empty = none.
	Volumes []action.VolumeDir
	// User runs work without a user, in its workload or in its image; empty = the cell itself.
	User string
	// Ports are given to containers from FirstPort up to and including LastPort,
	// but for the kernel's ephemeral range; 0 = 20000 to 29999.
	FirstPort, LastPort int
	// TestKinds has each kind of isolation tested now and then, for Withdrawn.
	TestKinds bool
	Output    logstore.Config
	Cache     cache.Config // of downloads
	UnpackMax int64        // bytes that an archive may unpack to where the work names no disk; 0 = DefaultUnpack
	Image     image.Config // of unpacked images
	Clock     run.Clock
	Log       *slog.Logger
}

// DefaultUnpack is the default limit of the unpacked size of an archive, in bytes.
const DefaultUnpack = 2 << 30

func (c Config) withDefaults() Config {
	if c.UnpackMax <= 0 {
		c.UnpackMax = DefaultUnpack
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.KillWait, 5*time.Second)
	set(&c.StuckAfter, 5*time.Second)
	if c.FirstPort == 0 {
		c.FirstPort = 20000
	}
	if c.LastPort == 0 {
		c.LastPort = 29999
	}
	if c.Clock.Wall == nil {
		c.Clock = run.Kernel()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	for _, clock := range []*run.Clock{&c.Output.Clock, &c.Cache.Clock, &c.Image.Clock} {
		if clock.Wall == nil {
			*clock = c.Clock
		}
	}
	for _, log := range []**slog.Logger{&c.Output.Log, &c.Cache.Log, &c.Image.Log} {
		if *log == nil {
			*log = c.Log
		}
	}
	return c
}
