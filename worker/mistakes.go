package worker

// Mistakes plants errors in the rules, so that the simulator and the exhaustive
// search can show that they would find them. The zero value plants none.
// Production never sets it: the architecture test allows the type to package
// sim and to tests only.
type Mistakes struct {
	SkipSequence          bool // the cell accepts a RunTask older than the last Notify
	PartialConsensus      bool // the wait ends when the connected cells agree, whoever is missing
	CellOutlives          bool // the cell's time-out is longer than the leader's promise
	CreditWithoutLease    bool // credit is given without a check of the lease
	CountFromAnswer       bool // the cell counts credit from the answer's arrival
	MemberAfterEligible   bool // a process is eligible before its member row is durable
	DeleteAtMustDie       bool // the member row goes at MUST_DIE, before certain death
	WaitByOwnFlags        bool // waits use the leader's time-outs, not the rows'
	NewByUID              bool // a job counts as new when its uid is, though its name had a row
	AckBeforeCommit       bool // a status is acknowledged before it is durable
	EffectBeforeCommit    bool // effects are performed before the commit
	SameLease             bool // a server campaigns again on the lease of its last term
	CreditBeforeRecord    bool // credit is given to a process whose adopted work is not recorded
	DuplicateNeverStarted bool // a repeated RunTask is answered stale, and that is read as "never started"
	SplitTransition       bool // a transition is committed in two halves
	SetBeforeWaitEnds     bool // a cell is given the set of a leader that still waits (consensus witness)
	DisplacedLeaves       bool // a process that has lost its cell's name leaves the set before it is certainly dead (consensus witness)
	AloneWithOthers       bool // the first cell that reports ends the wait for what no row names, as if there were no other
	DeadByTimeAlone       bool // a promise that passed is proof, though a successor says that something is not gone
}
