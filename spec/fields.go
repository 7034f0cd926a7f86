package spec

// The field structs: the fields of a spec file. Their order is the order of the documentation.

type file struct {
	place
	Domain    string           `spec:"domain" minlen:"1" default:"default" doc:"namespace of the resources in this file"`
	DomainTTL *duration        `spec:"domain_ttl" default:"never expires" doc:"time for which the domain stays fresh after apply; instances without a service are destroyed only in a fresh domain"`
	Services  named[service]   `spec:"services" doc:"long-running processes by name"`
	Tasks     named[oneTask]   `spec:"tasks" doc:"one-off tasks by name; each runs once, and again after a change of its definition"`
	Jobs      named[job]       `spec:"jobs" doc:"commands that run once on each node of a tree, by name"`
	Schedules named[scheduled] `spec:"schedules" doc:"schedules by name; each starts a task or job, or sends a signal"`
}

// workload is the common part of services, tasks and jobs.
type workload struct {
	Command command   `spec:"command" doc:"program to run: a list of program and arguments, or a string for /bin/sh -c. Either command or action is required, unless the image defines a program (ENTRYPOINT and CMD)"`
	Action  *tree     `spec:"action" doc:"tree of steps, instead of command"`
	Setup   *tree     `spec:"setup" doc:"steps that run once before the main program; processes that they leave behind end with the container"`
	Dir     string    `spec:"dir" default:"the image's WORKDIR, else the container's own directory" doc:"working directory; a path with ./ is relative to the spec file"`
	Env     variables `spec:"env" doc:"environment variables, passed unchanged; nothing is expanded"`
	EnvFile envFiles  `spec:"env_file" doc:"files of variables, one NAME=VALUE a line, relative to the spec file; the CLI reads them. A later file replaces variables of an earlier one, and env those of files"`
	Secrets variables `spec:"secrets" doc:"variables with the contents of files of the cell, like DB_PASSWORD: db/password. The file is below DIRECTORY/DOMAIN of cantina cell --secrets DIRECTORY, and is read when a program starts. The value is in no plan, event or log"`
	Volumes []volume  `spec:"volumes" doc:"files and directories of the cell's machine in the container, with isolation namespaces or rootfs. The cell allows paths below the directories of cantina cell --volumes; work is placed only where all of its paths are allowed"`
	API     bool      `spec:"api" default:"false" doc:"set CANTINA_API and CANTINA_TOKEN (address and token of the API), with the full rights of an operator"`
	User    literal   `spec:"user" default:"the image's USER, else the cell's --default-user, else the cell's own" doc:"user name, uid or uid:gid; names are looked up on the cell or in the image"`

	Labels free[literal] `spec:"labels" doc:"labels for selectors, like cantina ps -l app=web; they do not affect the placement (see cell_labels). A schedule has the labels of its task or job. A change replaces no instance of a service"`

	Memory    size       `spec:"memory" default:"not counted, no limit" doc:"memory reserved on the cell, also the limit; rounded up to 1 MiB"`
	Disk      size       `spec:"disk" default:"not counted, no limit" doc:"disk space of the container's directory; rounded up to 1 MiB"`
	CPU       processors `spec:"cpu" default:"not counted, no limit" doc:"processors, like 0.5 or 500m"`
	MaxPids   int        `spec:"max_pids" min:"0" default:"no limit" doc:"maximum number of processes and threads"`
	OpenFiles int        `spec:"open_files" min:"0" default:"the cell's" doc:"maximum number of open files (RLIMIT_NOFILE)"`
	LogRate   size       `spec:"log_rate" default:"no bound" doc:"maximum output per second; dropped bytes are counted in the log"`
	Quiet     bool       `spec:"suppress_output" default:"false" doc:"discard the program's output"`

	Isolation enum[isolations] `spec:"isolation" default:"process" doc:"isolation from the machine"`
	OwnNet    bool             `spec:"own_net" default:"false" doc:"with isolation namespaces or rootfs: a private network with loopback only; excludes ports"`
	Rootfs    string           `spec:"rootfs" doc:"with isolation rootfs: directory (./ is relative to the spec file), image tarball (OCI layout or docker save, optionally gzip), or registry reference with digest"`

	TimeLimit     duration           `spec:"time_limit" default:"none" doc:"maximum duration of the whole run; then it is stopped and has failed"`
	StopSignal    *signal            `spec:"stop_signal" default:"the image's STOPSIGNAL, else TERM" doc:"signal that requests a stop"`
	StopGrace     *duration          `spec:"stop_grace" default:"10s" doc:"delay between stop_signal and KILL"`
	LeftoverGrace *duration          `spec:"leftover_grace" default:"1s" doc:"delay between TERM and KILL for processes that outlive the main process"`
	KillMode      enum[killModes]    `spec:"kill_mode" default:"term_wait_kill" doc:"term_wait_kill sends stop_signal, then KILL. term sends only stop_signal: it may never end, until the reaper kills it at its deadline. kill sends KILL at once, without time to clean up"`
	KillTarget    enum[killTargets]  `spec:"kill_target" default:"cgroup" doc:"receivers of the signal: every process, the main process's group (without processes in other sessions), or the main process only (the rest is cleaned up after it)"`
	ParentDeath   *parentDeath       `spec:"parent_death_signal" default:"TERM with cgroups, KILL without" doc:"signal to the main process when the cell dies. TERM allows cleanup; KILL is certain, but leaves children behind without cgroups; none leaves it to the reaper"`
	Session       *bool              `spec:"own_session" default:"true" doc:"false runs it in the cell's session and process group: it receives Ctrl-C and Ctrl-Z directly, but without cgroups only the main process can be stopped"`
	OnCellRestart enum[cellRestarts] `spec:"on_cell_restart" default:"stop" doc:"keep: the work continues while the cell process restarts"`

	Stack       string        `spec:"stack" default:"any" doc:"stack that the cell must provide"`
	Placement   []string      `spec:"placement_tags" doc:"placement tags that the cell must have"`
	CellLabels  free[literal] `spec:"cell_labels" doc:"labels that the cell must have, with exactly these values"`
	CellMatch   []string      `spec:"cell_match" doc:"conditions on the cell's labels; all must hold: disk = ssd, disk != hdd, rack in (a, b), rack not in (a, b), gpu exists, gpu not exists, kernel version >= 5.10, < 7 (numbers separated by dots; what follows them is ignored). The label zone is the cell's zone"`
	Tolerations []string      `spec:"tolerates" doc:"tolerated taints of cells"`

	joined []placed // env_file and env
}

type service struct {
	place
	workload
	Resources    named[amount]    `spec:"resources" doc:"amounts of further resources of the cell, like gpu: 1"`
	Instances    *int             `spec:"instances" min:"0" max:"1000000" default:"1" doc:"number of instances"`
	Ports        []port           `spec:"ports" doc:"ports allocated by the cell; the program gets them as PORT (the first) and PORT_NAME"`
	SpreadOver   []string         `spec:"spread_over" default:"[zone]" doc:"labels over whose values the instances are spread, the most important first; then over zones and cells. Cells without the label count as one more value"`
	MaxPer       free[int]        `spec:"max_per" doc:"maximum number of instances of a version for each value of a label, like rack: 1; cell: 1 means one on each cell. Others wait. Instances on cells that are drained or silent do not count"`
	ApartFrom    []string         `spec:"apart_from" doc:"services of this domain that never share a cell with this one"`
	Preempt      *int             `spec:"preempt_priority" min:"1" max:"100" default:"50" doc:"rank among services and tasks, used with cantina server --preempt: an instance that has waited for room for 5s ends running instances of services of lower rank"`
	Checks       []check          `spec:"checks" doc:"health checks: an instance is RUNNING when all have passed; a later failure ends it"`
	Readiness    []check          `spec:"readiness_checks" doc:"checks that only decide whether the instance is routable"`
	Monitor      *tree            `spec:"monitor" doc:"a health check written as a step; ignored if checks is set"`
	Sidecars     []tree           `spec:"sidecars" doc:"steps that run beside the main program"`
	StartTimeout duration         `spec:"start_timeout" default:"no limit" doc:"maximum time to become RUNNING"`
	Restart      *restart         `spec:"restart" doc:"restart policy of a crashed instance"`
	Update       *update          `spec:"update" doc:"rules for the replacement of the old version by a new one"`
	Exclusive    bool             `spec:"exclusive" default:"false" doc:"never run a second copy: implies order stop_first and on_partition stop. If the service was not exclusive before, its earlier instances are only asked to stop (plan warns)"`
	OnPartition  enum[partitions] `spec:"on_partition" default:"keep" doc:"reaction of the cell when it loses contact with the leader"`
	ReplaceAfter duration         `spec:"replace_after" default:"0s" doc:"time to wait for an instance on a silent cell before a replacement starts. A cell is silent after 15s without heartbeat; 60s later it is lost, and the wait ends"`
	OnReturn     enum[returns]    `spec:"on_return" default:"old" doc:"the copy to keep when a silent cell returns and a replacement runs: the old one (if healthy), or the new one"`
	Routes       free[string]     `spec:"routes" doc:"opaque text per router"`
	Annotation   string           `spec:"annotation" doc:"opaque text, at most 10 KiB"`
}

type oneTask struct {
	place
	workload
	Resources  named[amount] `spec:"resources" doc:"amounts of further resources of the cell, like gpu: 1"`
	ResultFile string        `spec:"result_file" doc:"file with the task's result, at most 50 KiB (a larger one fails the task); relative to the container's directory"`
	OnLost     enum[losses]  `spec:"on_lost" default:"end" doc:"reaction of the cell when it loses contact with the leader; with keep, the task continues and is marked 'may still run'"`
	WhenFull   enum[fulls]   `spec:"when_full" default:"wait" doc:"reaction when no cell has room; a task that is too large for every cell fails at once in either case"`
	Pending    duration      `spec:"pending_timeout" default:"30m" doc:"fail the task if it has not started after this time"`
	Preempt    *int          `spec:"preempt_priority" min:"1" max:"100" default:"50" doc:"rank among services and tasks, used with cantina server --preempt: a task that has waited for room for 5s ends running instances of services of lower rank. A task that runs is never ended for other work"`
	Callback   string        `spec:"callback" doc:"http or https URL that receives a POST when the task has ended"`
	Annotation string        `spec:"annotation" doc:"opaque text, at most 10 KiB"`
}

type job struct {
	place
	workload
	Levels     []string          `spec:"levels" default:"node, if there are nodes" doc:"names of the node levels, from the root down"`
	Nodes      []source          `spec:"nodes" doc:"sources of the nodes, in order"`
	NodesOf    string            `spec:"nodes_of" doc:"name of a job in this file; use its levels and nodes"`
	NodeOrder  enum[nodeOrders]  `spec:"node_order" default:"random" doc:"order in which nodes run"`
	After      []string          `spec:"after" doc:"jobs that must be done on all their nodes first; they may run on other nodes"`
	Policy     enum[policies]    `spec:"policy" default:"round_robin" doc:"rule by which the jobs over the same nodes share them. round_robin: one start per job and round. ranked_priority: a job gets only room that those of higher priority leave. randomized_priority: each start is drawn, in proportion to the priorities. long_tail: first the job with the fewest ready nodes"`
	CellOrder  enum[cellOrders]  `spec:"cell_order" default:"spread" doc:"choice of the cell for a batch task. spread: the least used cell. round_robin: the cell that got batch work the longest ago. busiest: the cell with the least free amounts, by the weights of resources on level cell"`
	Level      string            `spec:"level" default:"the last of levels" doc:"level of the nodes on which the job runs"`
	Resources  free[free[limit]] `spec:"resources" doc:"per level (or instance for the root, or cell): the amount that each node has, and the amount that one batch task takes"`
	Filters    free[filter]      `spec:"filters" doc:"filters per level; a node runs only if it and all its ancestors pass. That of level cell selects cells by their host names"`
	DependsOn  []string          `spec:"depends_on" doc:"jobs that must finish on the same node first"`
	Priority   *float64          `spec:"priority" default:"1" doc:"with policy ranked_priority or randomized_priority: rank or weight among jobs, greater than 0 and at most 1e9"`
	Enabled    *bool             `spec:"enabled" default:"true" doc:"false starts no more batch tasks; running ones continue"`
	Orphans    *duration         `spec:"kill_orphans_after" default:"never" doc:"end running batch tasks this long after the job was disabled, or their node was removed or disabled, itself or above"`
	Retries    *int              `spec:"retries" min:"-1" max:"1000000" default:"3" doc:"number of retries after a failed attempt; -1: limited only by backoff"`
	Backoff    *backoff          `spec:"backoff" default:"[15s, 30s, 1m, 5m, 15m, 1h, 2h, 6h, 1d, repeat]" doc:"increasing pauses after failed attempts; the last item may be repeat or fail"`
	HostLevel  string            `spec:"host_level" doc:"run each batch task on the cell with the name of its ancestor node at this level"`
	Host       string            `spec:"host" doc:"run on this cell only"`
	IgnoreExit bool              `spec:"ignore_exit_code" default:"false" doc:"use only the status that the program writes to its status pipe; otherwise the worse of that and its exit code"`
	Call       enum[callForms]   `spec:"call" default:"template" doc:"form in which the command gets its node. template: {} and {/} in it are replaced. bistro: three arguments are appended: the name of the node, the path of the status pipe, and a JSON object with id, path_to_node, config, resources_by_node, prev_status, worker_node and worker_host"`
	Config     *anyMapping       `spec:"config" doc:"with call bistro: mapping that the program gets in its JSON object"`
	Owner      string            `spec:"owner" doc:"contact for questions"`
}

type port struct {
	place
	Name  string `spec:"name,required" minlen:"1" doc:"name of the port"`
	Fixed int    `spec:"fixed" min:"1" max:"65535" default:"a free one" doc:"use exactly this port of the machine; one instance at a time, others wait"`
}

type volume struct {
	place
	Host      string `spec:"host,required" minlen:"1" doc:"absolute path of a file or directory on the cell's machine; no link leads out of the allowed directory"`
	Container string `spec:"container" minlen:"1" default:"the path of host" doc:"absolute path in the container. With isolation namespaces it must exist on the machine, or be below /tmp; a rootfs gets it"`
	ReadOnly  bool   `spec:"read_only" default:"false" doc:"the container may not write to it"`
}

type check struct {
	place
	HTTP     *httpCheck `spec:"http" doc:"passes if a GET returns 200"`
	TCP      *tcpCheck  `spec:"tcp" doc:"passes if a connection is accepted"`
	Exec     *run       `spec:"exec" doc:"passes if the program exits with 0"`
	Timeout  duration   `spec:"timeout" default:"1s" doc:"timeout of one attempt"`
	Startup  duration   `spec:"startup_interval" default:"2s" doc:"interval until the first success"`
	Interval duration   `spec:"interval" default:"30s" doc:"interval after the first success"`
}

type httpCheck struct {
	place
	Port string `spec:"port" default:"the first" doc:"name of the port"`
	Path string `spec:"path" default:"/" doc:"path of the request"`
}

type tcpCheck struct {
	place
	Port string `spec:"port" default:"the first" doc:"name of the port"`
}

type restart struct {
	place
	Mode       enum[restartModes] `spec:"mode" default:"always" doc:"restart after every exit, after failures only, or never"`
	Immediate  *int               `spec:"immediate" min:"0" default:"2" doc:"number of crashes in a row with an immediate restart"`
	Base       duration           `spec:"base" default:"30s" doc:"first delay; doubles with each crash"`
	Max        duration           `spec:"max" default:"16m" doc:"maximum delay"`
	GiveUp     *int               `spec:"give_up" min:"-1" default:"200" doc:"maximum number of crashes; then no restart; -1: no limit"`
	ResetAfter duration           `spec:"reset_after" default:"5m" doc:"run time after which the crash count starts again at 0"`
}

type update struct {
	place
	Order     enum[updateOrders]   `spec:"order" default:"start_first" doc:"start the new instance before, or after, the old one stops; with a fixed port always stop_first"`
	Batch     int                  `spec:"batch" min:"1" default:"a quarter" doc:"number of instances replaced at a time"`
	Settle    duration             `spec:"settle" default:"at once with a check, else 1s" doc:"time that a new instance must be running and routable to count as healthy"`
	Deadline  duration             `spec:"progress_deadline" default:"10m" doc:"maximum time without another healthy instance"`
	OnFailure enum[updateFailures] `spec:"on_failure" default:"rollback" doc:"reaction to a failed update"`
}

type source struct {
	place
	Manual  *manual  `spec:"manual" doc:"nodes by name: a list of names, or a mapping of names to their children"`
	Script  argv     `spec:"script" doc:"program and arguments, run by the leader with one more argument, the name of the parent node (for the root, the name of the job); prints one node per line"`
	Range   *numbers `spec:"range" doc:"numbers, below each node of parent_level"`
	File    string   `spec:"file" doc:"file on each server, read again within 2s of a change; the last good nodes stay if it is bad. NAME.json has the forms of manual; another one has a node of the first level on each line, empty lines are left out, and a name twice counts once. A path with ./ is relative to the spec file"`
	AddTime *timed   `spec:"add_time" doc:"nodes that come and go with the times of calendars, below each node of parent_level"`
	Parent  string   `spec:"parent_level" default:"the root" doc:"with script: run once per node of this level; the lines are its children. With range and add_time: the level of the parents"`
	Timeout duration `spec:"timeout" default:"30s" doc:"timeout of one run of the script"`
}

type numbers struct {
	place
	First   int    `spec:"first" min:"0" default:"0" doc:"first number"`
	Last    int    `spec:"last,required" min:"0" doc:"last number, included if a step reaches it"`
	Step    int    `spec:"step" min:"1" default:"1" doc:"difference of two numbers"`
	Format  string `spec:"format" minlen:"1" default:"{i} below the root, else {parent}__{i}" doc:"name of a node: {i} is the number, {parent} the parent's name, {start} and {end} are the first and last number"`
	Enabled *bool  `spec:"enabled" default:"true" doc:"false disables the nodes"`
}

type timed struct {
	place
	Schedule []timedItem `spec:"schedule,required" minlen:"1" doc:"calendars; where two have the same time, the tags are united, and each can disable the node"`
	Zone     string      `spec:"timezone" doc:"IANA name or POSIX string; required except for @every and epoch"`
	Gap      enum[gaps]  `spec:"gap" default:"required if it applies within ten years" doc:"handling of a time that does not exist because the clock moves forward: the moment right after, or none"`
	Fold     enum[folds] `spec:"fold" default:"required if it applies within ten years" doc:"handling of a time that comes twice because the clock moves back: the first, the last or both"`
	Format   string      `spec:"format" minlen:"1" default:"{parent}:{time}" doc:"name of a node: {time} is its time in Unix seconds, {parent} the parent's name"`
}

type timedItem struct {
	place
	Cron     calendar  `spec:"cron,required" doc:"as in a schedule"`
	Lifetime duration  `spec:"lifetime,required" doc:"how long after its time a node exists"`
	Enabled  *duration `spec:"enabled_lifetime" default:"lifetime" doc:"duration for which a node is enabled, from its time on"`
	Tags     []string  `spec:"tags" doc:"tags for filters"`
}

type node struct {
	place
	Name     string   `spec:"name,required" minlen:"1" doc:"name of the node"`
	Children []string `spec:"children" doc:"names of its children"`
	Tags     []string `spec:"tags" doc:"tags for filters"`
	Enabled  *bool    `spec:"enabled" default:"true" doc:"false disables the node and its descendants"`
}

type limit struct {
	place
	Limit  *int `spec:"limit" min:"0" doc:"amount that each node of the level has; required except for level cell"`
	Take   *int `spec:"take" min:"0" default:"1" doc:"amount that one batch task takes"`
	Weight *int `spec:"weight" min:"0" max:"65536" doc:"on level cell, with cell_order busiest: weight of a free unit"`
}

type filter struct {
	place
	Include      []string `spec:"include" doc:"names of nodes to include"`
	IncludeRegex string   `spec:"include_regex" doc:"regular expression (RE2) of names to include; it matches anywhere in a name"`
	Exclude      []string `spec:"exclude" doc:"names of nodes to exclude"`
	ExcludeRegex string   `spec:"exclude_regex" doc:"regular expression of names to exclude"`
	Tags         []string `spec:"tags" doc:"include only nodes with at least one of these tags"`
	Fraction     *float64 `spec:"fraction" default:"1" doc:"share of the nodes, greater than 0 and at most 1; always the same nodes, and a larger share includes a smaller one"`
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
type callForms struct{}
type policies struct{}
type cellOrders struct{}

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
func (callForms) choices() []string      { return []string{"template", "bistro"} }
func (policies) choices() []string {
	return []string{"round_robin", "ranked_priority", "randomized_priority", "long_tail"}
}
func (cellOrders) choices() []string { return []string{"spread", "round_robin", "busiest"} }
func (nodeOrders) choices() []string { return []string{"random", "original", "lexicographic"} }
