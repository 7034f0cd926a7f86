package spec

// The field structs: what may stand in a spec file. Their order is the order of the
// documentation.

type file struct {
	place
	Domain    string           `spec:"domain" minlen:"1" default:"default" doc:"owner's name space of everything in this file"`
	DomainTTL *duration        `spec:"domain_ttl" default:"for ever" doc:"how long the domain stays fresh; what is missing is destroyed only in a fresh domain"`
	Services  named[service]   `spec:"services" doc:"long-running processes by name"`
	Tasks     named[oneTask]   `spec:"tasks" doc:"one-off tasks by name; each runs once, and again when its definition changes"`
	Jobs      named[job]       `spec:"jobs" doc:"commands that run once on each node of a forest, by name"`
	Schedules named[scheduled] `spec:"schedules" doc:"what starts at certain times, by name"`
}

// workload is what services, tasks and jobs have in common.
type workload struct {
	Command command   `spec:"command" doc:"program to run: a list of program and arguments, or a text for /bin/sh -c; one of command and action is needed, but for an image that names its own program (ENTRYPOINT and CMD)"`
	Action  *tree     `spec:"action" doc:"tree of steps instead of command"`
	Setup   *tree     `spec:"setup" doc:"steps that run once before"`
	Dir     string    `spec:"dir" default:"the image's WORKDIR, else the container's own folder" doc:"folder to run in; with ./ relative to the spec file's folder"`
	Env     variables `spec:"env" doc:"environment variables; values reach the program byte by byte, nothing is expanded"`
	API     bool      `spec:"api" default:"false" doc:"gives it CANTINA_API and CANTINA_TOKEN, the address of the API and what opens it: it may do there what the operator may"`
	User    literal   `spec:"user" default:"the image's USER, else the cell's --default-user, else the cell's own" doc:"user name, or uid or uid:gid; a name is looked up where the program runs"`

	Memory    size       `spec:"memory" default:"not counted, no limit" doc:"memory that is set aside, and the limit; rounded up to 1 MiB"`
	Disk      size       `spec:"disk" default:"not counted, no limit" doc:"disk space below the container's folder; rounded up to 1 MiB"`
	CPU       processors `spec:"cpu" default:"not counted, no limit" doc:"processors, as 0.5 or 500m"`
	MaxPids   int        `spec:"max_pids" min:"0" default:"no limit" doc:"most processes and threads"`
	OpenFiles int        `spec:"open_files" min:"0" default:"the cell's" doc:"most open files (RLIMIT_NOFILE)"`
	LogRate   size       `spec:"log_rate" default:"no bound" doc:"most output per second; what is dropped is counted in the log"`
	Quiet     bool       `spec:"suppress_output" default:"false" doc:"drop what the program writes"`

	Isolation enum[isolations] `spec:"isolation" default:"process" doc:"how far it is kept apart from its machine"`
	OwnNet    bool             `spec:"own_net" default:"false" doc:"with isolation namespaces or rootfs: a network of its own, loopback only; no ports then"`
	Rootfs    string           `spec:"rootfs" doc:"with isolation rootfs: folder (with ./ relative to the spec file's folder), tarball of an image (OCI layout or docker save, also with gzip), or registry reference pinned by digest"`

	TimeLimit     duration           `spec:"time_limit" default:"none" doc:"for the whole run; then it is stopped and failed"`
	StopSignal    *signal            `spec:"stop_signal" default:"the image's STOPSIGNAL, else TERM" doc:"signal that asks it to stop"`
	StopGrace     *duration          `spec:"stop_grace" default:"10s" doc:"how long after stop_signal KILL follows"`
	LeftoverGrace *duration          `spec:"leftover_grace" default:"1s" doc:"how long processes that outlive the main one have between TERM and KILL"`
	KillMode      enum[killModes]    `spec:"kill_mode" default:"term_wait_kill" doc:"what is sent: stop_signal and then KILL; only stop_signal (KILL is left to the reaper: safest for what it started, but it may never end); or KILL at once (fast, but it cannot clean up)"`
	KillTarget    enum[killTargets]  `spec:"kill_target" default:"cgroup" doc:"whom it is sent to: every process; the main process's group (misses those in sessions of their own); the main process (it can end its own in good order; what it forgets is a leftover)"`
	ParentDeath   *parentDeath       `spec:"parent_death_signal" default:"TERM with cgroups, KILL without" doc:"signal the main process gets when the cell dies: TERM lets it clean up, KILL is certain but orphans its children where there are no cgroups; none leaves it to the reaper"`
	Session       *bool              `spec:"own_session" default:"true" doc:"false keeps it in the cell's session and process group: Ctrl-C and Ctrl-Z of a terminal reach it directly, but without cgroups only the main process can be ended"`
	OnCellRestart enum[cellRestarts] `spec:"on_cell_restart" default:"stop" doc:"keep lets it run on while the cell's process is replaced"`

	Stack       string        `spec:"stack" default:"any" doc:"kind of cell that can run it"`
	Placement   []string      `spec:"placement_tags" doc:"placement tags that the cell must offer"`
	CellLabels  free[literal] `spec:"cell_labels" doc:"labels that the cell must carry with exactly these values"`
	Tolerations []string      `spec:"tolerates" doc:"taints of cells that are accepted"`
}

type service struct {
	place
	workload
	Resources    named[amount]    `spec:"resources" doc:"further named amounts that it takes from its cell, like gpu: 1"`
	Instances    *int             `spec:"instances" min:"0" max:"1000000" default:"1" doc:"how many are wanted"`
	Ports        []port           `spec:"ports" doc:"ports that the cell gives out; the program finds them as PORT (the first) and PORT_NAME"`
	Checks       []check          `spec:"checks" doc:"all must pass: then it is RUNNING; later one failure ends the instance"`
	Readiness    []check          `spec:"readiness_checks" doc:"decide only whether the instance is routable"`
	Monitor      *tree            `spec:"monitor" doc:"like a check that is an action; ignored when checks is set"`
	Sidecars     []tree           `spec:"sidecars" doc:"actions that run beside the main one"`
	StartTimeout duration         `spec:"start_timeout" default:"no limit" doc:"time to become RUNNING"`
	Restart      *restart         `spec:"restart" doc:"when a crashed instance starts again"`
	Update       *update          `spec:"update" doc:"how a new version takes the place of the old one"`
	Exclusive    bool             `spec:"exclusive" default:"false" doc:"no second copy may ever run: stop-first everywhere, on_partition stop. Of what ran before the service became exclusive only the stop is waited for: plan says so"`
	OnPartition  enum[partitions] `spec:"on_partition" default:"keep" doc:"what a cell that lost its leader does with it"`
	ReplaceAfter duration         `spec:"replace_after" default:"0s" doc:"how long an instance is waited for when its cell has fallen silent (after 15s, by the server's flags), before a copy starts elsewhere; when the cell is given up (60s later) it is not waited for any more"`
	OnReturn     enum[returns]    `spec:"on_return" default:"old" doc:"which copy stays when the silent cell is back and a copy runs elsewhere: the old one, if it is healthy, or the new one"`
	Routes       free[string]     `spec:"routes" doc:"opaque text per router"`
	Annotation   string           `spec:"annotation" doc:"opaque text, at most 10 KiB"`
}

type oneTask struct {
	place
	workload
	Resources  named[amount] `spec:"resources" doc:"further named amounts that it takes from its cell, like gpu: 1"`
	ResultFile string        `spec:"result_file" doc:"file whose content is the task's result (a larger one than 50 KiB fails the task); relative to the container's folder"`
	OnLost     enum[losses]  `spec:"on_lost" default:"end" doc:"keep lets it run on when its cell lost the leader; it is then marked 'may still run'"`
	WhenFull   enum[fulls]   `spec:"when_full" default:"wait" doc:"fail ends it at once when no cell has room; what no cell could ever hold fails at once either way"`
	Pending    duration      `spec:"pending_timeout" default:"30m" doc:"ends it when it was not started in time"`
	Callback   string        `spec:"callback" doc:"http or https address that gets a POST when the task has ended"`
	Annotation string        `spec:"annotation" doc:"opaque text, at most 10 KiB"`
}

type job struct {
	place
	workload
	Levels     []string          `spec:"levels" doc:"names of the levels of its nodes, from the root down"`
	Nodes      []source          `spec:"nodes" doc:"where the nodes come from, in order"`
	NodesOf    string            `spec:"nodes_of" doc:"name of a job of this file whose levels and nodes are used instead"`
	NodeOrder  enum[nodeOrders]  `spec:"node_order" default:"random" doc:"in which order nodes are taken"`
	Level      string            `spec:"level" default:"the last of levels" doc:"at whose nodes it runs"`
	Resources  free[free[limit]] `spec:"resources" doc:"per level (or instance, the root, or cell): what each node has and one batch task takes"`
	Filters    free[filter]      `spec:"filters" doc:"per level: which nodes; a node runs only when it and all its ancestors pass"`
	DependsOn  []string          `spec:"depends_on" doc:"jobs that must be done on the same node first"`
	Priority   *float64          `spec:"priority" default:"1" doc:"weight among jobs; above 0"`
	Enabled    *bool             `spec:"enabled" default:"true" doc:"false starts nothing; what runs goes on"`
	Retries    *int              `spec:"retries" min:"-1" max:"1000000" default:"3" doc:"attempts after the first that ended in an error; -1: only the backoff list bounds them"`
	Backoff    *backoff          `spec:"backoff" default:"[15s, 30s, 1m, 5m, 15m, 1h, 2h, 6h, 1d, repeat]" doc:"pauses after errors, increasing; the last item may be repeat or fail"`
	HostLevel  string            `spec:"host_level" doc:"run on the machine that is named like the ancestor at this level"`
	Host       string            `spec:"host" doc:"run on this machine only"`
	IgnoreExit bool              `spec:"ignore_exit_code" default:"false" doc:"only what the program writes to its status pipe counts; else the worse of that and of how it ended"`
	Owner      string            `spec:"owner" doc:"who to ask"`
}

type port struct {
	place
	Name  string `spec:"name,required" minlen:"1" doc:"name of the port"`
	Fixed int    `spec:"fixed" min:"1" max:"65535" default:"a free one" doc:"exactly this port of the machine, which one instance has at a time; others wait for it"`
}

type check struct {
	place
	HTTP     *httpCheck `spec:"http" doc:"healthy when a GET is answered with 200"`
	TCP      *tcpCheck  `spec:"tcp" doc:"healthy when a connection is accepted"`
	Exec     *run       `spec:"exec" doc:"healthy when the program exits with 0"`
	Timeout  duration   `spec:"timeout" default:"1s" doc:"of one attempt"`
	Startup  duration   `spec:"startup_interval" default:"2s" doc:"cadence until the first success"`
	Interval duration   `spec:"interval" default:"30s" doc:"cadence afterwards"`
}

type httpCheck struct {
	place
	Port string `spec:"port" default:"the first" doc:"name of the port"`
	Path string `spec:"path" default:"/" doc:"path to get"`
}

type tcpCheck struct {
	place
	Port string `spec:"port" default:"the first" doc:"name of the port"`
}

type restart struct {
	place
	Mode       enum[restartModes] `spec:"mode" default:"always" doc:"which ends are followed by a restart"`
	Immediate  *int               `spec:"immediate" min:"0" default:"2" doc:"how many crashes in a row are followed by a restart at once"`
	Base       duration           `spec:"base" default:"30s" doc:"first wait; it doubles with each crash"`
	Max        duration           `spec:"max" default:"16m" doc:"longest wait"`
	GiveUp     *int               `spec:"give_up" min:"-1" default:"200" doc:"no restart after more crashes than this; -1: never give up"`
	ResetAfter duration           `spec:"reset_after" default:"5m" doc:"an instance that ran this long starts counting anew"`
}

type update struct {
	place
	Order     enum[updateOrders]   `spec:"order" default:"start_first" doc:"whether the new instance runs before the old one stops; with a fixed port always stop_first"`
	Batch     int                  `spec:"batch" min:"1" default:"a quarter" doc:"how many instances change at once"`
	Settle    duration             `spec:"settle" default:"at once with a check, else 1s" doc:"how long an instance must run and be routable to count as healthy"`
	Deadline  duration             `spec:"progress_deadline" default:"10m" doc:"how long an update may go without one more healthy instance"`
	OnFailure enum[updateFailures] `spec:"on_failure" default:"rollback" doc:"what to do with an update that failed"`
}

type source struct {
	place
	Manual  *manual  `spec:"manual" doc:"nodes by name: a list of names, or a mapping of names to their children"`
	Script  argv     `spec:"script" doc:"program and arguments, run by the leader; prints one node a line"`
	Parent  string   `spec:"parent_level" default:"the root" doc:"with script: run once for each node of this level, whose name is added as the last argument; the lines are its children"`
	Timeout duration `spec:"timeout" default:"30s" doc:"of one run of the script"`
}

type node struct {
	place
	Name     string   `spec:"name,required" minlen:"1" doc:"name of the node"`
	Children []string `spec:"children" doc:"names of its children"`
	Tags     []string `spec:"tags" doc:"tags for filters"`
	Enabled  *bool    `spec:"enabled" default:"true" doc:"false keeps it and its descendants from running"`
}

type limit struct {
	place
	Limit *int `spec:"limit" min:"0" doc:"what each node of the level has; needed but for the level cell"`
	Take  *int `spec:"take" min:"0" default:"1" doc:"what one batch task takes"`
}

type filter struct {
	place
	Include      []string `spec:"include" doc:"only these nodes"`
	IncludeRegex string   `spec:"include_regex" doc:"only nodes whose name matches (RE2, anywhere in the name)"`
	Exclude      []string `spec:"exclude" doc:"not these nodes"`
	ExcludeRegex string   `spec:"exclude_regex" doc:"no node whose name matches"`
	Tags         []string `spec:"tags" doc:"only nodes with at least one of these tags"`
	Fraction     *float64 `spec:"fraction" default:"1" doc:"this part of the nodes, above 0 and up to 1; always the same ones, and of a larger part a superset"`
}

type isolations struct{}
type killModes struct{}
type killTargets struct{}
type cellRestarts struct{}
type partitions struct{}
type returns struct{}
type losses struct{}
type fulls struct{}
type restartModes struct{}
type updateOrders struct{}
type updateFailures struct{}
type nodeOrders struct{}

// The order of the choices is the order of the constants of the domain.
func (isolations) choices() []string     { return []string{"process", "none", "namespaces", "rootfs"} }
func (killModes) choices() []string      { return []string{"term_wait_kill", "term", "kill"} }
func (killTargets) choices() []string    { return []string{"cgroup", "group", "child"} }
func (cellRestarts) choices() []string   { return []string{"stop", "keep"} }
func (partitions) choices() []string     { return []string{"keep", "stop"} }
func (returns) choices() []string        { return []string{"old", "new"} }
func (losses) choices() []string         { return []string{"end", "keep"} }
func (fulls) choices() []string          { return []string{"wait", "fail"} }
func (restartModes) choices() []string   { return []string{"always", "on_failure", "never"} }
func (updateOrders) choices() []string   { return []string{"start_first", "stop_first"} }
func (updateFailures) choices() []string { return []string{"rollback", "keep"} }
func (nodeOrders) choices() []string     { return []string{"random", "original", "lexicographic"} }
