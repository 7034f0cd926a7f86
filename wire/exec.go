package wire

// ExecWindow is how many bytes of standard input the caller of an Exec may send that
// ExecResponse.taken does not cover yet.
const ExecWindow = 1 << 20
