package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cantina/image/archive"
	"cantina/internal/removal"
	"cantina/internal/run"
)

// machine is the platform that images are chosen for.
func machine() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// fromRegistry uses stored data, else the registry. Manifest, config and layers are verified by
// their digests.
func (st *Store) fromRegistry(ctx context.Context, ref string) (*Image, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	digest, ok := parsed.(name.Digest)
	if !ok {
		return nil, ErrUnpinned
	}
	if i := st.recall(digest.DigestStr()); i != nil {
		return i, nil
	}
	img, err := remote.Image(digest, remote.WithContext(ctx), remote.WithTransport(st.cfg.Transport),
		remote.WithAuthFromKeychain(st.cfg.Keychain), remote.WithPlatform(st.platform))
	if err != nil {
		return nil, err
	}
	return st.use(ctx, img, digest.DigestStr())
}

// fromTarball reads an OCI layout or the format of "docker save".
func (st *Store) fromTarball(ctx context.Context, file, sum string) (*Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	content := func() io.Reader { return io.NewSectionReader(f, 0, info.Size()) }
	digest, err := fileDigest(ctx, content())
	if err != nil {
		return nil, err
	}
	if sum != "" && digest != "sha256:"+sum {
		return nil, fmt.Errorf("%w: the file is %s", ErrDigest, digest)
	}
	if i := st.recall(digest); i != nil {
		return i, nil
	}
	plain, done, err := st.uncompressed(ctx, content)
	if err != nil {
		return nil, err
	}
	defer done()
	kind, err := tarKind(plain())
	if err != nil {
		return nil, err
	}
	if kind == layoutTar {
		return st.fromLayout(ctx, plain(), digest)
	}
	img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(plain()), nil }, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return st.use(ctx, img, digest)
}

// uncompressed is the content of a tarball that may be compressed with gzip: it is read
// several times, so that one lies unpacked in the store until done.
func (st *Store) uncompressed(ctx context.Context, content func() io.Reader) (plain func() io.Reader, done func(),
	err error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(content(), head); err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, nil, err
	}
	for magic, name := range map[string]string{"\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ\x00": "xz", "BZh": "bzip2"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, nil, fmt.Errorf("%w: it is compressed with %s, and only gzip is read: decompress it", ErrFormat, name)
		}
	}
	if !bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return content, func() {}, nil
	}
	f, err := os.CreateTemp(st.dir, tmpPrefix)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _, _ = f.Close(), os.Remove(f.Name()) } // the rest is removed at the next start
	size, err := st.decompress(ctx, content(), f)
	if err != nil {
		done()
		return nil, nil, err
	}
	return func() io.Reader { return io.NewSectionReader(f, 0, size) }, done, nil
}

func (st *Store) decompress(ctx context.Context, from io.Reader, to io.Writer) (size int64, err error) {
	z, err := gzip.NewReader(bufio.NewReader(from))
	if err == nil {
		size, err = io.Copy(to, io.LimitReader(run.Reader(ctx, z), st.cfg.MaxBytes+1))
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF):
		return 0, fmt.Errorf("%w: gzip: %w", ErrFormat, err)
	case err == nil && size > st.cfg.MaxBytes:
		return 0, ErrTooLarge
	}
	return size, err
}

// fileDigest hashes a file; the end of ctx ends it.
func fileDigest(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, run.Reader(ctx, r), make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

type tarFormat int

const (
	layoutTar tarFormat = iota
	dockerTar
)

// tarKind looks at the names: newer tools write both formats into one file, then
// the older index is used.
func tarKind(r io.Reader) (tarFormat, error) {
	t := tar.NewReader(r)
	isLayout, isRoot, members := false, false, 0
	for ; ; members++ {
		h, err := t.Next()
		switch {
		case err == io.EOF && isLayout:
			return layoutTar, nil
		case err == io.EOF && isRoot:
			return 0,
				fmt.Errorf("%w: it is a tar of a root file system, not of an image: unpack it into a directory and name that "+
					"directory", ErrFormat)
		case err == io.EOF && members > 0:
			return 0, fmt.Errorf("%w: the tar has neither manifest.json nor oci-layout", ErrFormat)
		case err != nil && members == 0:
			return 0, fmt.Errorf("%w: it is not a tar, plain or with gzip", ErrFormat)
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		name := path.Clean("/" + h.Name)
		switch top, _, _ := strings.Cut(name[1:], "/"); {
		case name == "/manifest.json":
			return dockerTar, nil
		case name == "/oci-layout":
			isLayout = true
		case top == "bin" || top == "etc" || top == "usr" || top == "lib":
			isRoot = true
		}
	}
}

// fromLayout unpacks the layout's blobs beside the layers for as long as they are read.
func (st *Store) fromLayout(ctx context.Context, r io.Reader, digest string) (i *Image, err error) {
	dir, err := os.MkdirTemp(st.dir, tmpPrefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removal.Tree(dir)) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	err = archive.UnpackTar(ctx, r, root, archive.Options{MaxBytes: st.cfg.MaxBytes})
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	img, err := st.choose(index, 0)
	if err != nil {
		return nil, err
	}
	return st.use(ctx, img, digest)
}

// choose finds the image for this machine in an index of images and indexes.
func (st *Store) choose(index v1.ImageIndex, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil || depth > 3 {
		return nil, fmt.Errorf("%w: index: %w", ErrFormat, err)
	}
	var others []string
	for _, d := range m.Manifests {
		if d.MediaType.IsIndex() {
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := st.choose(inner, depth+1); err == nil {
				return img, nil
			}
		}
		if d.MediaType.IsImage() && d.Platform != nil && !d.Platform.Satisfies(st.platform) {
			others = append(others, d.Platform.String())
		} else if d.MediaType.IsImage() {
			return verifiedImage(index, d)
		}
	}
	if len(others) == 0 {
		return nil, ErrFormat
	}
	return nil, fmt.Errorf("%w: it is for %s, and this is %s", ErrFormat, strings.Join(others, ", "), st.platform)
}

// verifiedImage checks manifest and config against their digests: a layout on
// disk is not checked by the library.
func verifiedImage(index v1.ImageIndex, d v1.Descriptor) (v1.Image, error) {
	img, err := index.Image(d.Digest)
	if err != nil {
		return nil, err
	}
	raw, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	if err := matches(raw, d.Digest, "manifest"); err != nil {
		return nil, err
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	return img, matches(config, m.Config.Digest, "config")
}

func matches(content []byte, want v1.Hash, what string) error {
	sum := sha256.Sum256(content)
	if want.Algorithm != "sha256" || want.Hex != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%w: %s is sha256:%x, not %s", ErrDigest, what, sum, want)
	}
	return nil
}
