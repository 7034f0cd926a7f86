package robust

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// alert is a rule of deploy/prometheus/alerts.yaml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%+v, %v", file, err)
	}
	return file.Groups[0].Rules
}

// TestAlertsAreTheDocumentedOnes: the rules of the file are those of the page, in its order.
func TestAlertsAreTheDocumentedOnes(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9]+) (s|min) \\|").FindAllStringSubmatch(string(page), -1)
	var documented, ruled []string
	for _, r := range rows {
		documented = append(documented, r[1]+" for "+r[2]+r[3][:1])
	}
	for _, a := range alerts(t) {
		ruled = append(ruled, a.Expr+" for "+a.For)
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", a.Alert)
		}
	}
	if len(ruled) != 10 || !slices.Equal(ruled, documented) {
		t.Errorf("the rules\n%s\nare not those of the page\n%s", strings.Join(ruled, "\n"), strings.Join(documented, "\n"))
	}
}

// queries are all expressions of the dashboard and the alert rules.
func queries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/cantina.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Type, Title string
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %s has no unit or no target", p.Title)
		}
		for _, x := range p.Targets {
			all = append(all, x.Expr)
			if seconds := strings.Contains(x.Expr, "histogram_quantile"); seconds != (p.FieldConfig.Defaults.Unit == "s") {
				t.Errorf("panel %s has unit %s for %s", p.Title, p.FieldConfig.Defaults.Unit, x.Expr)
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d queries", len(all))
	}
	for _, a := range alerts(t) {
		all = append(all, a.Expr)
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b((?:cantina|etcd|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`^([a-z]+)(=~|=)"([^"]*)"$`)
	grouping = regexp.MustCompile(`(?:by|ignoring) \(([^)]*)\)`)
)

// unknown lists the metrics and labels of a query that no series has. Prometheus itself adds job and instance.
func unknown(query string, series map[string]float64) (out []string) {
	has := func(name, label string) bool {
		for s := range series {
			if of, labels, _ := strings.Cut(s, "{"); of == name && strings.Contains("{"+labels, label) {
				return true
			}
		}
		return false
	}
	var names []string
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		names = append(names, s[1])
		if !has(s[1], "") {
			out = append(out, s[1])
			continue
		}
		for _, m := range strings.Split(s[2], ",") {
			x := matcher.FindStringSubmatch(m)
			switch {
			case m == "" || x != nil && (x[1] == "job" || x[1] == "instance"):
			case x == nil || !has(s[1], x[1]+`="`+x[3]+`"`):
				out = append(out, s[1]+"{"+m+"}")
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for _, label := range strings.Split(g[1], ", ") {
			if label != "instance" && !slices.ContainsFunc(names, func(n string) bool { return has(n, label+`="`) }) {
				out = append(out, "label "+label)
			}
		}
	}
	return out
}

func TestUnknownMetricsAndLabelsAreFound(t *testing.T) {
	series := map[string]float64{`cantina_x{state="a"}`: 1, "cantina_y_bucket{le=\"1\"}": 1}
	for query, want := range map[string]int{`sum(cantina_x{job=~"$job",state="a"})`: 0, `cantina_x{state="b"}`: 1,
		"cantina_z": 1, `sum by (state) (cantina_x)`: 0, `sum by (reason) (cantina_x)`: 1,
		`sum by (le) (rate(cantina_y_bucket[5m]))`: 0} {
		if got := unknown(query, series); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}
