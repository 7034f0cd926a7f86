package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/executor"
	"cantina/image"
	"cantina/internal/node"
)

// storageFlags set how much a cell keeps on its disk, and its port range.
type storageFlags struct {
	perContainer int64
	total        int64
	age          time.Duration
	downloads    int64
	images       int64
	unpack       int64
	ports        string
	registry     string
}

func (f *storageFlags) add(cmd *cobra.Command) {
	const gib = 1 << 30
	*f = storageFlags{perContainer: gib, total: 10 * gib, downloads: 10 * gib, images: 20 * gib,
		unpack: executor.DefaultUnpack}
	p := cmd.Flags()
	p.Var(&sizeFlag{&f.perContainer, minStorage}, "log-per-container",
		"maximum log size per container; the middle is dropped first and marked as a gap")
	p.Var(&sizeFlag{&f.total, minStorage}, "log-total",
		"maximum log size of all containers of the cell; the oldest is dropped first")
	longerVar(p, &f.age, "log-keep", 24*time.Hour, "how long to keep logs of a removed container")
	p.Var(&sizeFlag{&f.downloads, minStorage}, "download-cache",
		"size of the download cache; least recently used entries are evicted first")
	p.Var(&sizeFlag{&f.images, minStorage}, "image-cache",
		"size of the cache of unpacked images; least recently used entries are evicted first")
	p.Var(&sizeFlag{&f.unpack, minStorage}, "unpack-limit",
		"maximum unpacked size of a downloaded archive, for work without a disk limit")
	p.StringVar(&f.ports, "ports", "20000-29999",
		"ports for containers, FIRST-LAST; ports in the kernel's ephemeral range are skipped")
	p.StringVar(&f.registry, "registry-config", "",
		"file with credentials for image registries, as written by \"docker login\"; read at each pull")
}

// minStorage is the least that the stores work well with, in bytes: below it a store
// would be cutting all the time.
const minStorage = 1 << 20

// config checks the flags and puts them into a cell's configuration.
func (f *storageFlags) config(cfg *node.CellConfig) error {
	if f.perContainer > f.total {
		return failf(api.ExitUsage, "--log-per-container (%s) must not be more than --log-total (%s)",
			(&sizeFlag{bytes: &f.perContainer}).String(), (&sizeFlag{bytes: &f.total}).String())
	}
	first, last, err := portRange(f.ports)
	if err != nil {
		return err
	}
	var keychain authn.Keychain
	if f.registry != "" {
		if keychain, err = image.FileKeychain(f.registry); err != nil {
			return failf(api.ExitUsage, "--registry-config: %v", err)
		}
	}
	cfg.Output.MaxContainer, cfg.Output.MaxTotal, cfg.Output.RetainAge = f.perContainer, f.total, f.age
	cfg.Cache.MaxBytes, cfg.Image.MaxBytes, cfg.Image.Keychain = f.downloads, f.images, keychain
	cfg.Unpack = f.unpack
	cfg.FirstPort, cfg.LastPort = first, last
	return nil
}

// portsOutside is a range of ports that the kernel does not give out itself.
func portsOutside(low, high int) string {
	const least, most, some = 1024, 65535, 10000
	if low-least >= most-high {
		return fmt.Sprintf("%d-%d", max(least, low-some), low-1)
	}
	return fmt.Sprintf("%d-%d", high+1, min(most, high+some))
}

// portRange reads FIRST-LAST.
func portRange(s string) (first, last int, err error) {
	a, b, ok := strings.Cut(s, "-")
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return 0, 0, failf(api.ExitUsage, "--ports must be a range FIRST-LAST like 20000-29999, not %q", s)
	case first < 1024 || last > 65535 || first > last:
		return 0, 0, failf(api.ExitUsage, "--ports %s: both must be between 1024 and 65535, FIRST not above LAST", s)
	}
	if n, low, high := executor.FreePorts(first, last); n == 0 {
		return 0, 0,
			failf(api.ExitUsage,
				"--ports %s is all of it in the kernel's ephemeral range (%d-%d, net.ipv4.ip_local_port_range): "+
					"no port is left to give out; use for example %s", s, low, high, portsOutside(low, high))
	}
	return first, last, nil
}
