package packaging

import (
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageUser is the user and group of the processes of an image; it owns the data directory.
const imageUser = 65532

// imageData is the data directory in an image.
const imageData = "var/lib/cantina"

// Image writes a container image as a file for docker load. It has the program alone, and runs a server.
func (r Release) Image(b Build, to string) error {
	program, err := os.ReadFile(b.Program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	err = r.writeTar(&layer, "", []file{{"usr/bin/cantina", 0o755, program}}, []string{imageData, "tmp"})
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l,
		History: v1.History{Created: v1.Time{Time: r.Time}, CreatedBy: "cantina " + r.Version}})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", b.Arch, v1.Time{Time: r.Time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/cantina"}, Cmd: []string{"server", "--data", "/" + imageData}, User: "65532:65532",
		Env: []string{"PATH=/usr/bin", "HOME=/" + imageData}, ExposedPorts: map[string]struct{}{"7480/tcp": {}},
		Volumes: map[string]struct{}{"/" + imageData: {}},
		Labels: map[string]string{"org.opencontainers.image.title": "cantina",
			"org.opencontainers.image.version": r.Version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("cantina:" + r.imageTag())
	if err != nil {
		return err
	}
	return create(to, func(w io.Writer) error { return tarball.Write(tag, image, w) })
}

// imageTag is the version, as a tag may have it.
func (r Release) imageTag() string {
	return strings.Map(func(c rune) rune {
		if c == '+' || c == '~' {
			return '-'
		}
		return c
	}, r.Version)
}
