//! Instructions as text. The names are those of BSD's bpf(4), and the layout is that of `tcpdump
//! -d`.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::insn::*;

/// An instruction with its index in the program, such as `(004) jeq      #0x800           jt 5 jf
/// 9`. A tab separates `jt` and `jf`.
#[derive(Debug, Clone, Copy)]
pub struct Mnemonic {
    at: usize,
    insn: CbpfInsn,
}

impl CbpfInsn {
    /// Returns the instruction as text. `at` is its index in its program, which determines the
    /// absolute targets of jumps.
    #[must_use]
    pub fn mnemonic(self, at: usize) -> Mnemonic {
        Mnemonic { at, insn: self }
    }
}

impl fmt::Display for Mnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, insn } = *self;
        let (word, operand) = words(insn, at);
        if !jumps_on_a_test(insn.code) {
            return write!(f, "({at:03}) {word:<8} {operand}");
        }
        let [jt, jf] = [insn.jt, insn.jf].map(|distance| at + 1 + usize::from(distance));
        write!(f, "({at:03}) {word:<8} {operand:<16} jt {jt}\tjf {jf}")
    }
}

fn jumps_on_a_test(code: u16) -> bool {
    const CLASS: u16 = 0x07;
    code & CLASS == JA & CLASS && code != JA
}

/// Returns the mnemonic and the text of its operand.
fn words(insn: CbpfInsn, at: usize) -> (&'static str, String) {
    let k = insn.k;
    match insn.code {
        RET_K => ("ret", format!("#{k}")),
        RET_A => ("ret", String::new()),
        LD_W_ABS => ("ld", format!("[{k}]")),
        LD_H_ABS => ("ldh", format!("[{k}]")),
        LD_B_ABS => ("ldb", format!("[{k}]")),
        LD_W_IND => ("ld", format!("[x + {k}]")),
        LD_H_IND => ("ldh", format!("[x + {k}]")),
        LD_B_IND => ("ldb", format!("[x + {k}]")),
        LD_LEN => ("ld", "#pktlen".into()),
        LDX_LEN => ("ldx", "#pktlen".into()),
        LD_IMM => ("ld", format!("#0x{k:x}")),
        LDX_IMM => ("ldx", format!("#0x{k:x}")),
        LDX_MSH => ("ldxb", format!("4*([{k}]&0xf)")),
        LD_MEM => ("ld", format!("M[{k}]")),
        LDX_MEM => ("ldx", format!("M[{k}]")),
        ST => ("st", format!("M[{k}]")),
        STX => ("stx", format!("M[{k}]")),
        JA => ("ja", format!("{}", at as u64 + 1 + u64::from(k))),
        NEG => ("neg", String::new()),
        TAX => ("tax", String::new()),
        TXA => ("txa", String::new()),
        code => match (two_operands(code & !X), code & X) {
            (Some((word, _)), X) => (word, "x".into()),
            (Some((word, Radix::Ten)), _) => (word, format!("#{}", k.cast_signed())),
            (Some((word, Radix::Sixteen)), _) => (word, format!("#0x{k:x}")),
            (None, _) => ("unimp", format!("0x{code:x}")),
        },
    }
}

enum Radix {
    Ten,
    Sixteen,
}

/// For an instruction that combines the accumulator with a second operand, returns its mnemonic and
/// the radix of constants.
fn two_operands(code: u16) -> Option<(&'static str, Radix)> {
    Some(match code {
        ADD => ("add", Radix::Ten),
        SUB => ("sub", Radix::Ten),
        MUL => ("mul", Radix::Ten),
        DIV => ("div", Radix::Ten),
        MOD => ("mod", Radix::Ten),
        LSH => ("lsh", Radix::Ten),
        RSH => ("rsh", Radix::Ten),
        AND => ("and", Radix::Sixteen),
        OR => ("or", Radix::Sixteen),
        XOR => ("xor", Radix::Sixteen),
        JEQ => ("jeq", Radix::Sixteen),
        JGT => ("jgt", Radix::Sixteen),
        JGE => ("jge", Radix::Sixteen),
        JSET => ("jset", Radix::Sixteen),
        _ => return None,
    })
}
