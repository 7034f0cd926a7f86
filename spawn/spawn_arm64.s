#include "textflag.h"

// func clone(call *[6]uintptr, ops *op, report *report) (pid uintptr)
//
// The child has no stack of its own: it touches none.
TEXT ·clone(SB),NOSPLIT,$0-32
	MOVD	call+0(FP), R9
	MOVD	ops+8(FP), R19
	MOVD	report+16(FP), R20
	MOVD	0(R9), R8
	MOVD	8(R9), R0
	MOVD	16(R9), R1
	MOVD	24(R9), R2
	MOVD	32(R9), R3
	MOVD	40(R9), R4
	SVC
	CBZ	R0, child
	MOVD	R0, pid+24(FP)
	RET

child:
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	40(R19), R4
	MOVD	48(R19), R5
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	64(R19), R9
	CMN	$1, R9
	BEQ	next
	CMP	R0, R9
	BEQ	next
	MOVD	ZR, R0
	B	tell

failed:
	NEG	R0, R0
	CMP	$64, R0
	BCS	tell
	MOVD	56(R19), R9
	MOVD	$1, R10
	LSL	R0, R10
	TST	R10, R9
	BEQ	tell

next:
	ADD	$72, R19
	B	child

tell:
	MOVD	R19, 0(R20)
	MOVD	R0, 8(R20)

exit:
	MOVD	$94, R8 // exit_group
	MOVD	$127, R0
	SVC
	B	exit
