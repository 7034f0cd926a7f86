package spec

import (
	"fmt"
	"reflect"

	"cantina/action"
	"cantina/internal/text"

	"go.yaml.in/yaml/v3"
)

// otherNames are names that fields have in compose files, Kubernetes and Nomad.
func otherNames(name string) string {
	return map[string]string{
		"cmd": "command", "exec": "command", "entrypoint": "command", "args": "command", "script": "command",
		"replicas": "instances", "count": "instances", "scale": "instances",
		"image": "rootfs", "environment": "env", "environment_file": "env_file",
		"EnvironmentFile": "env_file", "envFrom": "env_file", "workdir": "dir", "working_dir": "dir", "cwd": "dir",
		"volume": "volumes", "mounts": "volumes", "volumeMounts": "volumes", "binds": "volumes",
		"mem": "memory", "mem_limit": "memory", "cpus": "cpu", "timeout": "time_limit",
		"healthcheck": "checks", "health_check": "checks", "readiness": "readiness_checks",
		"restart_policy": "restart", "tags": "placement_tags", "tolerations": "tolerates",
		"constraints": "cell_match", "constraint": "cell_match", "affinity": "cell_match", "node_selector": "cell_match",
		"nodeSelector": "cell_match", "spread": "spread_over", "topologySpreadConstraints": "spread_over",
		"anti_affinity": "apart_from", "distinct_hosts": "max_per", "max_replicas_per_node": "max_per",
		"schedule": "cron", "tz": "timezone", "time_zone": "timezone", "services_of": "services", "namespace": "domain",
	}[name]
}

// like is a hint with the field that an unknown one may mean.
func (f *fields) like(name string) string {
	if other := otherNames(name); other != "" {
		if _, ok := f.byName[other]; ok {
			return "did you mean " + other + "?"
		}
	}
	return text.DidYouMean(name, f.names)
}

// longForm is a hint at the mapping that a short form of other tools means.
func longForm(t reflect.Type, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	value := text.Shorten(n.Value, 60)
	switch t {
	case reflect.TypeFor[port]():
		if n.ShortTag() == "!!int" {
			return fmt.Sprintf("use {name: http, fixed: %s}, or {name: http} for a free port", value)
		}
		return fmt.Sprintf("use {name: %s}", value)
	case reflect.TypeFor[volume]():
		if v, err := action.ParseVolume(n.Value); err == nil && v.ReadOnly {
			return fmt.Sprintf("use {host: %s, container: %s, read_only: true}", v.Host, v.Container)
		} else if err == nil {
			return fmt.Sprintf("use {host: %s, container: %s}", v.Host, v.Container)
		}
		return "use {host: /srv/data, container: /data}"
	case reflect.TypeFor[restart]():
		return fmt.Sprintf("use {mode: %s}", value)
	}
	return ""
}
