// SPDX-License-Identifier: GPL-2.0-only
//
// Sends captures through emulated links in simulation time, as `slipring emulate --virtual` does,
// and prints what becomes of each frame.
//
//   slipring-link-replay --links=link.toml --seed=1 --in=left.pcap [--in2=right.pcap]
//
// Output, one line an event, times in ns since the first frame of both captures:
//
//   sent TIME EXIT HEXBYTES          lost TIME CAUSE LINK LENGTH

#include "ns3/command-line.h"
#include "ns3/pcap-file.h"
#include "ns3/simulator.h"
#include "ns3/slipring-link.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <iomanip>
#include <iostream>

using namespace ns3;

namespace
{

/// A frame of a capture.
struct CapturedFrame
{
    uint64_t ns;
    uint32_t entry;
    std::vector<uint8_t> bytes;
};

/// Appends the frames of a capture that enter at \p entry. \return whether it could be read
bool
ReadCapture(const std::string& path, uint32_t entry, std::vector<CapturedFrame>& frames)
{
    PcapFile file;
    file.Open(path, std::ios::in | std::ios::binary);
    std::vector<uint8_t> bytes(65535);
    while (!file.Fail())
    {
        uint32_t seconds;
        uint32_t fraction;
        uint32_t captured;
        uint32_t length;
        uint32_t read;
        file.Read(bytes.data(), bytes.size(), seconds, fraction, captured, length, read);
        if (file.Fail())
        {
            return file.Eof();
        }
        const uint64_t ns = seconds * 1'000'000'000ull + fraction * (file.IsNanoSecMode() ? 1 : 1000);
        frames.push_back({ns, entry, {bytes.begin(), bytes.begin() + read}});
    }
    return false;
}

/// Prints the outcome of each frame: where it was sent, or why it was lost.
struct Printer
{
    Ptr<SlipringLink> link;

    void Deliver(const SlipringLink::Delivery& sent) const
    {
        std::cout << "sent " << Simulator::Now().GetNanoSeconds() << " "
                  << link->GetExitName(sent.exit) << " " << std::hex << std::setfill('0');
        for (uint32_t at = 0; at < sent.size; at++)
        {
            std::cout << std::setw(2) << unsigned(sent.data[at]);
        }
        std::cout << std::dec << "\n";
    }

    void Lose(const SlipringLink::Loss& lost) const
    {
        std::cout << "lost " << lost.at.GetNanoSeconds() << " " << lost.cause << " "
                  << (lost.link.empty() ? "-" : lost.link) << " " << lost.length << "\n";
    }
};

} // namespace

int
main(int argc, char** argv)
{
    std::string links;
    std::string in;
    std::string in2;
    uint64_t seed = 1;
    CommandLine arguments(__FILE__);
    arguments.AddValue("links", "TOML file with the links", links);
    arguments.AddValue("seed", "seed, unless the file has one", seed);
    arguments.AddValue("in", "capture for the first port", in);
    arguments.AddValue("in2", "capture for the second port", in2);
    arguments.Parse(argc, argv);

    auto link = CreateObject<SlipringLink>();
    link->SetAttribute("Seed", UintegerValue(seed));
    if (!link->Load(links))
    {
        std::cerr << links << ": " << link->GetError() << std::endl;
        return 1;
    }
    std::vector<CapturedFrame> frames;
    if (!ReadCapture(in, 0, frames) || (!in2.empty() && !ReadCapture(in2, 1, frames)))
    {
        std::cerr << "--in, --in2: not a capture in pcap's format; try: tcpdump -w" << std::endl;
        return 1;
    }
    std::stable_sort(frames.begin(), frames.end(), [](const auto& one, const auto& other) {
        return one.ns < other.ns;
    });
    const Printer printer{link};
    link->SetDeliverCallback(MakeCallback(&Printer::Deliver, &printer));
    link->SetLossCallback(MakeCallback(&Printer::Lose, &printer));
    for (const auto& frame : frames)
    {
        Simulator::Schedule(NanoSeconds(frame.ns - frames[0].ns), [&link, &frame] {
            link->Offer(frame.entry, frame.bytes.data(), frame.bytes.size(), 0);
        });
    }
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
