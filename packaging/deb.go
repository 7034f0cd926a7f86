package packaging

import (
	"context"
	"crypto/md5"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed files
var embedded embed.FS

// unitFiles are the files of the services.
func unitFiles() ([]file, error) {
	var out []file
	var failed []error
	for _, f := range []struct{ from, to string }{
		{"cantina-server.service", "usr/lib/systemd/system/cantina-server.service"},
		{"cantina-cell.service", "usr/lib/systemd/system/cantina-cell.service"},
		{"sysusers.conf", "usr/lib/sysusers.d/cantina.conf"},
		{"server.default", "etc/default/cantina-server"},
		{"cell.default", "etc/default/cantina-cell"},
	} {
		data, err := embedded.ReadFile("files/" + f.from)
		out, failed = append(out, file{f.to, 0o644, data}), append(failed, err)
	}
	return out, errors.Join(failed...)
}

// Deb writes a Debian package with dpkg-deb. compression is one of dpkg-deb's types.
func (r Release) Deb(ctx context.Context, b Build, to, compression string) error {
	files, err := r.common(b)
	if err != nil {
		return err
	}
	units, err := unitFiles()
	if err != nil {
		return err
	}
	files = append(files, units...)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.to, b.to) })
	var sums, conf strings.Builder
	size := 0
	for _, f := range files {
		size += (len(f.data) + 1023) / 1024
		if strings.HasPrefix(f.to, "etc/") {
			fmt.Fprintf(&conf, "/%s\n", f.to)
			continue
		}
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.to)
	}
	control := "Package: cantina\nVersion: " + r.debVersion() + "\nArchitecture: " + b.Arch +
		"\nMaintainer: Authors of cantina <maintainers@cantina.invalid>\nInstalled-Size: " + strconv.Itoa(size) +
		"\nDepends: systemd | systemd-standalone-sysusers\nSection: admin\nPriority: optional\n" +
		"Description: scheduler of services, tasks, batch jobs and schedules\n" +
		" cantina runs services, one-off tasks, data-parallel batch jobs and schedules on\n" +
		" one machine or many. It never starts a second copy of a task, batch task or\n" +
		" exclusive service that may still be running.\n"
	files = append(files, file{"DEBIAN/control", 0o644, []byte(control)},
		file{"DEBIAN/conffiles", 0o644, []byte(conf.String())}, file{"DEBIAN/md5sums", 0o644, []byte(sums.String())})
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		data, err := embedded.ReadFile("files/" + script)
		if err != nil {
			return err
		}
		files = append(files, file{"DEBIAN/" + script, 0o755, data})
	}
	tree, err := os.MkdirTemp("", "cantina-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := r.writeTree(tree, files); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Z"+compression, "--build", tree, to)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.Time.Unix(), 10))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, text)
	}
	return nil
}

// writeTree writes files to a directory; each file and directory gets the time of the release.
func (r Release) writeTree(tree string, files []file) error {
	if err := os.Chmod(tree, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		p := filepath.Join(tree, f.to)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, f.data, os.FileMode(f.mode)); err != nil {
			return err
		}
		if err := os.Chmod(p, os.FileMode(f.mode)); err != nil { // whatever the umask
			return err
		}
	}
	return filepath.Walk(tree, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.IsDir() {
			err = os.Chmod(p, 0o755)
		}
		return errors.Join(err, os.Chtimes(p, r.Time, r.Time))
	})
}
