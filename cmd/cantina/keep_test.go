package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cantina/internal/node"
)

// TestStorageFlags: each reaches the cell, and an invalid value is refused with the flag's name
// and the allowed values.
func TestStorageFlags(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	if err := os.WriteFile(good, []byte(`{"auths":{"r.example":{"auth":"dTpwYXNz"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte(`{"auths":{"r.example":{"auth":"hunter2hunter2`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string // empty = accepted
	}{
		"defaults": {nil, ""},
		"all": {[]string{"--log-per-container", "2Mi", "--log-total", "4Mi", "--log-keep", "1h",
			"--download-cache", "5Mi", "--image-cache", "6Mi", "--ports", "21000-21009", "--registry-config", good}, ""},
		"too small": {[]string{"--download-cache", "1k"}, "--download-cache must be at least 1Mi"},
		"no size":   {[]string{"--image-cache", "big"}, "must be a size like 64Mi"},
		"more than all": {[]string{"--log-total", "2Mi"},
			"--log-per-container (1Gi) must not be more than --log-total (2Mi)"},
		"no age":           {[]string{"--log-keep", "0s"}, "--log-keep must be a duration longer than 0"},
		"no range":         {[]string{"--ports", "20000"}, "FIRST-LAST like 20000-29999"},
		"backwards":        {[]string{"--ports", "30000-20000"}, "FIRST not above LAST"},
		"privileged":       {[]string{"--ports", "80-90"}, "between 1024 and 65535"},
		"too high":         {[]string{"--ports", "65000-70000"}, "between 1024 and 65535"},
		"the kernel's":     {[]string{"--ports", "40000-40010"}, "ephemeral range"},
		"no credentials":   {[]string{"--registry-config", filepath.Join(dir, "none")}, "no such file"},
		"damaged":          {[]string{"--registry-config", bad}, "is not a file that \"docker login\" writes"},
		"damaged, secrets": {[]string{"--registry-config", bad}, "registry credentials"},
	} {
		var f storageFlags
		cmd := &cobra.Command{}
		f.add(cmd)
		var cfg node.CellConfig
		err := cmd.ParseFlags(c.args)
		if err != nil {
			err = wrongFlag(cmd, err)
		} else {
			err = f.config(&cfg)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s prints a secret: %v", name, err)
		}
		switch name {
		case "defaults":
			if cfg.Output.MaxContainer != 1<<30 || cfg.Output.MaxTotal != 10<<30 || cfg.Output.RetainAge != 24*time.Hour ||
				cfg.Cache.MaxBytes != 10<<30 ||
				cfg.Image.MaxBytes != 20<<30 || cfg.FirstPort != 20000 || cfg.LastPort != 29999 || cfg.Image.Keychain != nil {
				t.Errorf("%+v", cfg)
			}
		case "all":
			if cfg.Output.MaxContainer != 2<<20 || cfg.Output.MaxTotal != 4<<20 || cfg.Output.RetainAge != time.Hour ||
				cfg.Cache.MaxBytes != 5<<20 ||
				cfg.Image.MaxBytes != 6<<20 || cfg.FirstPort != 21000 || cfg.LastPort != 21009 || cfg.Image.Keychain == nil {
				t.Errorf("%+v", cfg)
			}
		}
	}
}
