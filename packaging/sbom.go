package packaging

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// BOM writes the software bill of materials of a program as CycloneDX 1.6 JSON: the modules that are linked into it,
// the standard library, and the packages in its web UI.
func (r Release) BOM(b Build, to string) error {
	info, err := buildinfo.ReadFile(b.Program)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Program, err)
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{{BOMRef: "pkg:golang/std@" + std, Type: cdx.ComponentTypeLibrary, Name: "std", Version: std,
		PackageURL: "pkg:golang/std@" + std}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		url := "pkg:golang/" + strings.ToLower(d.Path) + "@" + d.Version
		parts = append(parts, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version,
			PackageURL: url, Properties: &[]cdx.Property{{Name: "go:sum", Value: d.Sum}}})
	}
	web, err := webPackages(filepath.Join(r.Source, "ui", "package-lock.json"))
	if err != nil {
		return err
	}
	parts = append(parts, web...)
	slices.SortFunc(parts, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	url := "pkg:generic/cantina@" + r.Version
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.Time.UTC().Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{BOMRef: url, Type: cdx.ComponentTypeApplication, Name: "cantina", Version: r.Version,
			PackageURL: url, Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}}
	bom.Components, bom.Dependencies = &parts, &[]cdx.Dependency{{Ref: url, Dependencies: &refs}}
	return create(to, func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

// webPackages are the packages that the web UI is built with and that are part of it.
func webPackages(lock string) ([]cdx.Component, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var of struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var out []cdx.Component
	for path, p := range of.Packages {
		_, name, ok := strings.Cut(path, "node_modules/")
		if !ok || p.Dev {
			continue
		}
		url := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		out = append(out, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: p.Version,
			PackageURL: url, Licenses: &cdx.Licenses{{License: &cdx.License{ID: p.License}}}})
	}
	if len(out) == 0 {
		return nil, errors.New(lock + ": no packages")
	}
	return out, nil
}
