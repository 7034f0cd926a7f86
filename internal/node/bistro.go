package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cantina/bistro"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

// BistroFile is a configuration file of Bistro that a server follows.
type BistroFile struct {
	Name    string // empty = none
	Domain  string // of its jobs; empty = spec.BistroDomain
	Command []string
}

// bistroEvery is how often the file is looked at.
const bistroEvery = 2 * time.Second

// bistroNotice is the kind of its warnings.
const bistroNotice = "bistro"

// followBistro applies the configuration file while this server leads: at the beginning of a term, and
// after each change. A file that cannot be read leaves the jobs as they are, and is a warning.
func (s *Server) followBistro(ctx context.Context) error {
	applied, said := "", ""
	for {
		s.mu.Lock()
		t := s.term
		s.mu.Unlock()
		if t != nil {
			// The stamp is taken before the file is read: a change meanwhile is another one.
			if stamp := fmt.Sprint(t.Term(), stampOf(s.cfg.Bistro.Name)); stamp != applied {
				err := s.applyBistro(ctx)
				text := ""
				if err != nil {
					text = fmt.Sprintf("Bistro configuration %s is not in force: %v", s.cfg.Bistro.Name, err)
				}
				if err == nil || errors.Is(err, fault.ErrInvalid) {
					applied = stamp
				}
				if text != "" && text != said {
					s.log.Warn("cannot apply the Bistro configuration", "file", s.cfg.Bistro.Name, "error", err)
				}
				said = text
				s.api.Notice(bistroNotice, text)
			}
		}
		if err := run.Pause(ctx, bistroEvery); err != nil {
			return err
		}
	}
}

// stampOf changes with a file: two changes within a second are two.
func stampOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return err.Error()
	}
	inode := uint64(0)
	var st unix.Stat_t
	if unix.Stat(name, &st) == nil {
		inode = st.Ino
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), inode)
}

func (s *Server) applyBistro(ctx context.Context) error {
	data, err := readRegular(s.cfg.Bistro.Name)
	if err != nil {
		return err
	}
	if _, err := bistro.Parse(data); err != nil {
		return fault.As(err, fault.ErrInvalid)
	}
	got, err := s.api.ApplyFiles(ctx, []*pb.SpecFile{{Name: s.cfg.Bistro.Name, BistroDomain: s.cfg.Bistro.Domain,
		Content: bistro.WithCommand(data, s.cfg.Bistro.Command)}}, true)
	if err != nil {
		return err
	}
	for _, d := range got.Domains {
		for _, w := range d.Warnings {
			s.log.Warn("Bistro configuration", "file", s.cfg.Bistro.Name, "warning", w)
		}
		for _, c := range d.Changes {
			if c.Verb != "keep" {
				s.log.Info("Bistro configuration changes a job", "job", c.Name, "change", c.Verb)
			}
		}
	}
	return nil
}

// readRegular reads a file of at most the size of a spec file. Another kind of file may never end.
func readRegular(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, spec.MaxSize+1))
	if err == nil && len(data) > spec.MaxSize {
		err = fmt.Errorf("%s is larger than %s: %w", name, spec.FormatSize(spec.MaxSize), fault.ErrTooLarge)
	}
	return data, err
}
