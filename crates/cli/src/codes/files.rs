//! `SR02xx`: files.

use super::entry::codes;

codes! {
    SR0201 Usage "the file cannot be opened" {
        cause: "The path does not exist, is a directory, or may not be read or written by you.",
        remedy: "Check the path and its permissions.",
        example: "ls -l FILE",
    }
    SR0202 Usage "the file is not a capture" {
        cause: "The file starts with neither the magic number of pcap nor that of pcapng, or its\n\
                link type is not Ethernet. Compressed captures are not read.",
        remedy: "Unpack it, or convert it.",
        example: "gunzip trace.pcap.gz\nfile trace.pcap",
    }
    SR0203 Usage "the capture is damaged" {
        cause: "The file ends inside a record, or a record claims an absurd length. The writer was\n\
                probably killed. The cause line names the record and the offset.",
        remedy: "Keep the records before the damage, or capture again.",
        example: "editcap trace.pcap mended.pcap",
    }
    SR0204 Usage "the output cannot be written" {
        cause: "Writing the report failed: the disk is full or the file went away.\n\
                A pipe whose reader left is no error.",
        remedy: "Make room, or write elsewhere.",
        example: "df -h .",
    }
    SR0205 Usage "the trace, table or profile cannot be used" {
        cause: "A file that describes a link has an error: a number without a unit, a time that goes\n\
                back, a probability beyond 1, an empty line. The cause line has line and column.",
        remedy: "Mend the line; the help line says what may stand there.",
        example: "slipring emulate --config link.toml --check",
    }
    SR0206 Usage "the capture exists" {
        cause: "A capture that frames go to is written from its start. One of that name exists, and\n\
                what it holds would be lost. `pcap:FILE` is read where frames only come from it: as\n\
                the first port of bridge, emulate, firewall, lb and dedup, and by gen -f rx.\n\
                Files that a flag names to be written (-w, --capture, --virtual) are written over.",
        remedy: "Name another file, or say that this one may go.",
        example: "slipring gen -i pcap:out.pcap -f tx -n 10 --overwrite",
    }
}
