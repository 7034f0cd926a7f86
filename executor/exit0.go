package executor

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// exit0 is _exit(0) in machine code, by architecture.
var exit0 = map[string]struct {
	machine elf.Machine
	code    []byte
}{
	// xor edi, edi; mov eax, SYS_exit; syscall
	"amd64": {elf.EM_X86_64, []byte{0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}},
	// mov x0, 0; mov x8, SYS_exit; svc 0
	"arm64": {elf.EM_AARCH64, []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4}},
}

// WriteExit0 makes a directory into a root file system whose only file is a program that ends at once with
// exit code 0. The program needs no library, so it runs in a root without any.
func WriteExit0(root, name string) error {
	x, ok := exit0[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no test program for %s", runtime.GOARCH)
	}
	const base, header, segment = 0x400000, 64, 56
	size := uint64(header + segment + len(x.code))
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(x.machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + header + segment, Phoff: header, Ehsize: header, Phentsize: segment, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: size, Memsz: size, Align: 0x1000}
	var b bytes.Buffer
	for _, part := range []any{h, p, x.code} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("write test program: %w", err)
		}
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	program := filepath.Join(root, name)
	if err := os.WriteFile(program+".new", b.Bytes(), 0o755); err != nil {
		return err
	}
	return os.Rename(program+".new", program)
}
