//! `SR00xx`: flags, values, configuration.

use super::entry::codes;

codes! {
    SR0001 Usage "unknown flag" {
        cause: "The command has no flag of this name.\n\
                Values that start with a dash look like flags too: write --flag=-1.",
        remedy: "List the flags of a command with --help, or complete them with TAB.",
        example: "slipring gen --help",
    }
    SR0002 Usage "the value does not fit the flag" {
        cause: "The flag takes one of a few words, or a number in a range, and got another value.",
        remedy: "The help line of the error names the values that are allowed.",
        example: "slipring gen -i null: -f tx",
    }
    SR0003 Usage "flags that do not go together" {
        cause: "Two flags contradict each other, or a flag that can be given once was repeated.",
        remedy: "Drop one of them. A key of a configuration file never contradicts the command\n\
                 line: the command line wins.",
        example: "slipring gen --help",
    }
    SR0004 Usage "wrong number of values" {
        cause: "A flag stands without its value, or with more values than it takes, or a word\n\
                stands where the command takes none.",
        remedy: "Give the value after the flag: --rate 1Mpps or --rate=1Mpps. A value is one word:\n\
                 10Gbit, or in quotes '10 Gbit'.",
        example: "slipring gen -i null: -f tx --rate 1Mpps",
    }
    SR0005 Usage "unknown command" {
        cause: "slipring has no command of this name, or the abbreviation fits several.",
        remedy: "List the commands. A command may be shortened as long as it stays unique.",
        example: "slipring --help",
    }
    SR0006 Usage "a needed flag is missing" {
        cause: "The command cannot guess this value, so it must be given.",
        remedy: "Give the flag on the command line or as a key of the --config file.",
        example: "slipring gen -i netmap:eth0 -f rx",
    }
    SR0007 Usage "the value has a wrong unit or form" {
        cause: "Rates, times, sizes and shares are numbers with a unit. They are read exactly:\n\
                a value that is not a whole number of the smallest unit is refused, not rounded.\n\
                \n  rate   1.5Mpps  14880952pps  10Gbit  9.5Gbit/s  125MB/s\n  \
                time   250us  2ms  1.5s  10min  1h  (ns is the smallest)\n  \
                size   64k = 64000  64KiB = 65536  2MiB  1500B\n  \
                count  1000  64k  1.5M\n  \
                share  0.1%  250ppm  1e-6  (one part in 10^9 is the smallest)\n\
                \nk, M, G, T are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. bit, bps and\n\
                bit/s all mean bits per second. A number alone is refused where it has two\n\
                readings: the delay, rate or loss of a link, and every share. Elsewhere the help of\n\
                the flag says what it counts. Under the name of a classic program, as in\n\
                `slipring tlem`, numbers and letters mean what they meant to that program.",
        remedy: "Write the value with its unit. The error names both readings, or the column at\n\
                 which reading stopped.",
        example: "slipring gen -i null: -f tx --rate 14.88Mpps",
    }
    SR0008 Usage "unknown error code" {
        cause: "Error codes are SR and four digits.",
        remedy: "List all codes with their titles.",
        example: "slipring explain\nslipring explain SR0107",
    }
    SR0009 Usage "the configuration file is not TOML" {
        cause: "The file given by --config could not be read as TOML. Keys are the long names of\n\
                the command's flags; switches take true or false; repeated flags take an array.\n\
                The files of emulate and run, and scripts of changes, describe links instead.",
        remedy: "Start from the settings of a working command line.",
        example: "slipring gen -i null: -f tx --print-config > gen.toml\nslipring gen --config gen.toml",
    }
    SR0010 Usage "the configuration file has an unknown or unfit key" {
        cause: "A key of the --config file is not the long name of a flag of this command, or its\n\
                value is of a kind (table, date) that no flag takes. Files with sections have keys\n\
                of their own, which the help line names.",
        remedy: "Validate a file without touching anything by --check.",
        example: "slipring gen --config gen.toml --check",
    }
    SR0011 Usage "the description of the links has an unknown or unfit setting" {
        cause: "A part of a link has no setting or model of this name, a setting is missing, given\n\
                twice, or of a kind (text, number, table, list) that it cannot be. The cause line\n\
                says where it stands: in a file, a flag or a control message.",
        remedy: "The help line names what is allowed, or the name that is nearest.",
        example: "slipring emulate --config link.toml --check\n\
                  slipring emulate -B 10m -D 20ms --print-config",
    }
    SR0012 Usage "the classic program did what slipring does in another way" {
        cause: "A flag of the old program stands for something that cannot be had by that flag\n\
                here, such as a shared session file.",
        remedy: "The help line has the command that does it.",
        example: "slipring explain SR0012",
    }
    SR0013 Usage "no run of this name can be asked" {
        cause: "Live control finds a running command by its name or process number in the run\n\
                directory, or takes the only one there is. None fits, several do, or a name is\n\
                taken already.",
        remedy: "Give the name of the run, and the run directory if it is not the usual one.",
        example: "slipring emulate ctl --name lab stats\nslipring emulate ctl --run-dir DIR stats",
    }
    SR0014 Usage "the control request cannot be obeyed" {
        cause: "A line on the control socket is no JSON object, longer than 1 MiB, or asks for\n\
                something that the program does not know.",
        remedy: "The cause line says what is wrong. The connection stays.",
        example: "slipring emulate ctl --help",
    }
    SR0015 Usage "the running links cannot take the change" {
        cause: "The change is well written, but the emulator that runs cannot hold it: it would\n\
                change ports or the number of links, needs more memory than there is for frames,\n\
                or comes before a change that was accepted. Nothing has changed.",
        remedy: "The cause line says which. Changes to come are taken back by stop-script.",
        example: "slipring emulate ctl history\nslipring emulate ctl stop-script",
    }
    SR0016 Usage "the web gateway refuses the request" {
        cause: "slipring serve answers its own page and programs of this user and of root, or whoever\n\
                has the token. What came is from another user, from a page of another origin, has\n\
                not the token, or is nothing that is known.",
        remedy: "The cause line says which. Another machine needs a token.",
        example: "(umask 077; openssl rand -hex 16 > token)\n\
                  slipring serve --listen 0.0.0.0:8086 --token-file token",
    }
    SR0018 Usage "a command of ipfw or dnctl cannot be carried out" {
        cause: "The command has a mistake, names something that is not there, or no firewall runs that\n\
                could carry it out; it was typed, or stands in a file of rules. ipfw and dnctl end\n\
                with a status of sysexits(3): 64 for wrong usage, 65 for a wrong rule or value, 66\n\
                for a file that cannot be read, 69 for what is not there. A firewall does not begin\n\
                by a file with a mistake. Nothing has changed.",
        remedy: "The first line says what is wrong and at which column, the help line what may stand\n\
                 there. Commands and files can be tried with no firewall running.",
        example: "slipring ipfw -n add 100 allow ip from any to any\nslipring ipfw -n /etc/ipfw.rules",
    }
}
