#include "textflag.h"

// func clone(call *[6]uintptr, ops *op, report *report) (pid uintptr)
//
// The child has no stack of its own: it touches none.
TEXT ·clone(SB),NOSPLIT,$0-32
	MOVQ	call+0(FP), R9
	MOVQ	ops+8(FP), R12
	MOVQ	report+16(FP), R13
	MOVQ	0(R9), AX
	MOVQ	8(R9), DI
	MOVQ	16(R9), SI
	MOVQ	24(R9), DX
	MOVQ	32(R9), R10
	MOVQ	40(R9), R8
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, pid+24(FP)
	RET

child:
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	64(R12), CX
	CMPQ	CX, $-1
	JEQ	next
	CMPQ	AX, CX
	JEQ	next
	MOVQ	$0, AX
	JMP	tell

failed:
	NEGQ	AX
	CMPQ	AX, $64
	JCC	tell
	MOVQ	56(R12), CX
	BTQ	AX, CX
	JCC	tell

next:
	ADDQ	$72, R12
	JMP	child

tell:
	MOVQ	R12, 0(R13)
	MOVQ	AX, 8(R13)

exit:
	MOVQ	$231, AX // exit_group
	MOVQ	$127, DI
	SYSCALL
	JMP	exit
