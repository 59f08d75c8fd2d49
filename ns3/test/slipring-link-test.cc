// SPDX-License-Identifier: GPL-2.0-only
//
// Tests of emulated links in simulation time. They need no privileges, threads or files.

#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/node-container.h"
#include "ns3/on-off-helper.h"
#include "ns3/packet-sink-helper.h"
#include "ns3/packet-sink.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"
#include "ns3/slipring-link-channel.h"
#include "ns3/slipring-link-helper.h"
#include "ns3/slipring-link.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <slipring.h>

#include <algorithm>
#include <random>
#include <tuple>

using namespace ns3;

namespace
{

/// What became of a frame: when, "sent" or the cause of its loss, where, tag, bytes.
using Outcome = std::tuple<uint64_t, std::string, uint32_t, uint64_t, std::vector<uint8_t>>;

/// A frame that arrives.
struct Arrival
{
    uint64_t ns;
    uint32_t entry;
    std::vector<uint8_t> frame;
};

/// Random links and arrivals. A seed names one case.
class RandomCase
{
  public:
    explicit RandomCase(uint32_t seed)
        : m_random(seed)
    {
        m_toml = "seed = " + std::to_string(seed) + "\n";
        m_toml += Direction("up") + Direction("down");
        uint64_t ns = 0;
        for (int frame = 0; frame < 400; frame++)
        {
            // Bursts, and pauses; some frames arrive at the same time.
            ns += Below(4) ? Below(300'000) : Below(2) * Below(20'000'000);
            std::vector<uint8_t> bytes(60 + Below(1455));
            std::generate(bytes.begin(), bytes.end(), [this] { return Below(256); });
            m_arrivals.push_back({ns, Below(2), bytes});
        }
    }

    const std::string& GetToml() const
    {
        return m_toml;
    }

    const std::vector<Arrival>& GetArrivals() const
    {
        return m_arrivals;
    }

  private:
    uint32_t Below(uint32_t limit)
    {
        return m_random() % limit;
    }

    /// \return a line that sets \p name to one of \p choices; or, as likely as each of these, no
    /// text
    std::string Part(const std::string& name, const std::vector<std::string>& choices)
    {
        const uint32_t choice = Below(choices.size() + 1);
        return choice == choices.size() ? "" : name + " = \"" + choices[choice] + "\"\n";
    }

    std::string Direction(const std::string& name)
    {
        return "[link." + name + "]\n" +
               Part("rate", {"20Mbit", "ether(50Mbit)", "markov(10Mbit:5ms,80Mbit:9ms)"}) +
               Part("delay",
                    {"5ms", "uniform(1ms,9ms)", "normal(9ms,1ms,half_life=3ms)", "exp(1ms,2ms)"}) +
               Part("loss", {"2%", "ge(5%,30%)", "nth(7)"}) +
               Part("queue", {"droptail(packets=9)", "codel(1ms,10ms)", "red(2kB,9kB)"}) +
               Part("duplicate", {"const(5%)", "const(10%,after=3ms)"}) +
               Part("corrupt", {"ber(1e-5)"}) + Part("order", {"free", "drop"});
    }

    std::mt19937 m_random;
    std::string m_toml;
    std::vector<Arrival> m_arrivals;
};

/// \return what the engine alone does with a case: pushes all arrivals, and then runs
std::vector<Outcome>
OutcomesOfEngine(const RandomCase& links)
{
    slipring_network_options options{};
    options.size = sizeof(options);
    options.flags = SLIPRING_NETWORK_LOSSES;
    slipring_network* network = nullptr;
    NS_ABORT_MSG_IF(slipring_network_parse(links.GetToml().c_str(), &options, &network) < 0,
                    slipring_error_message() << "\n" << links.GetToml());
    for (uint64_t tag = 0; tag < links.GetArrivals().size(); tag++)
    {
        const Arrival& one = links.GetArrivals()[tag];
        slipring_network_push(network,
                              one.entry,
                              one.ns,
                              one.frame.data(),
                              one.frame.size(),
                              tag);
    }
    slipring_network_run(network, SLIPRING_NEVER - 1);
    std::vector<Outcome> outcomes;
    slipring_delivery sent{};
    sent.size = sizeof(sent);
    while (slipring_network_take(network, &sent) == 1)
    {
        std::vector<uint8_t> frame(sent.data, sent.data + sent.data_len);
        outcomes.emplace_back(sent.release_ns, "sent", sent.exit, sent.tag, frame);
    }
    slipring_loss lost{};
    lost.size = sizeof(lost);
    while (slipring_network_take_loss(network, &lost) == 1)
    {
        const std::string cause = slipring_cause_name(lost.cause);
        outcomes.emplace_back(lost.at_ns, cause, lost.link, lost.tag, std::vector<uint8_t>());
    }
    slipring_network_free(network);
    std::sort(outcomes.begin(), outcomes.end());
    return outcomes;
}

/// Runs a case by simulator events.
class Simulation
{
  public:
    explicit Simulation(const RandomCase& links)
        : m_link(CreateObject<SlipringLink>())
    {
        NS_ABORT_MSG_UNLESS(m_link->Parse(links.GetToml()), m_link->GetError());
        m_link->SetDeliverCallback(MakeCallback(&Simulation::Deliver, this));
        m_link->SetLossCallback(MakeCallback(&Simulation::Lose, this));
        for (uint64_t tag = 0; tag < links.GetArrivals().size(); tag++)
        {
            const Arrival& one = links.GetArrivals()[tag];
            m_open.push_back(1);
            Simulator::Schedule(NanoSeconds(one.ns), &Simulation::Offer, this, one, tag);
        }
    }

    std::vector<Outcome> Run()
    {
        Simulator::Run();
        std::sort(m_outcomes.begin(), m_outcomes.end());
        return m_outcomes;
    }

    Ptr<SlipringLink> GetLink() const
    {
        return m_link;
    }

    /// \return the number of frames with outcomes that are still to come
    std::size_t GetNOpen() const
    {
        return m_open.size() - std::count(m_open.begin(), m_open.end(), 0);
    }

  private:
    void Offer(const Arrival& arrival, uint64_t tag)
    {
        m_link->Offer(arrival.entry, arrival.frame.data(), arrival.frame.size(), tag);
    }

    void Deliver(const SlipringLink::Delivery& sent)
    {
        const uint64_t ns = Simulator::Now().GetNanoSeconds();
        std::vector<uint8_t> frame(sent.data, sent.data + sent.size);
        m_outcomes.emplace_back(ns, "sent", sent.exit, sent.tag, frame);
        m_open[sent.tag] = sent.remaining;
    }

    void Lose(const SlipringLink::Loss& lost)
    {
        const uint32_t link = lost.link == m_link->GetLinkName(0) ? 0 : 1;
        const uint64_t ns = lost.at.GetNanoSeconds();
        m_outcomes.emplace_back(ns, lost.cause, link, lost.tag, std::vector<uint8_t>());
        m_open[lost.tag] = lost.remaining;
    }

    Ptr<SlipringLink> m_link;
    std::vector<Outcome> m_outcomes;
    std::vector<uint32_t> m_open;
};

/// The same file, seed and arrivals give the same outcomes as the engine alone.
class LinkEqualsEngine : public TestCase
{
  public:
    LinkEqualsEngine()
        : TestCase("random links: fates, bytes and release times are those of the engine")
    {
    }

  private:
    void DoRun() override
    {
        for (uint32_t seed = 1; seed <= 60; seed++)
        {
            const RandomCase links(seed);
            Simulation simulation(links);
            const bool equal = simulation.Run() == OutcomesOfEngine(links);
            NS_TEST_EXPECT_MSG_EQ(equal, true, "case " << seed << "\n" << links.GetToml());
            CheckBalance(*simulation.GetLink());
            NS_TEST_EXPECT_MSG_EQ(simulation.GetNOpen(), 0, "each frame has its last outcome");
            Simulator::Destroy();
        }
    }

    void CheckBalance(const SlipringLink& link)
    {
        for (uint32_t number = 0; number < link.GetNLinks(); number++)
        {
            const auto seen = link.GetCounters(number);
            NS_TEST_EXPECT_MSG_EQ(seen.input + seen.copied,
                                  seen.output + seen.dropped + seen.inFlight,
                                  "in + copies = out + drops + in flight");
            NS_TEST_EXPECT_MSG_EQ(seen.inFlight, 0, "all have left at the end");
        }
    }
};

/// An invalid text is an error with advice.
class LinkRefusesInvalidText : public TestCase
{
  public:
    LinkRefusesInvalidText()
        : TestCase("an invalid file is refused with cause and advice, and nothing aborts")
    {
    }

  private:
    void DoRun() override
    {
        auto link = CreateObject<SlipringLink>();
        NS_TEST_EXPECT_MSG_EQ(link->Parse("[link.up]\nrate = \"fast\"\n"), false, "no rate");
        NS_TEST_EXPECT_MSG_NE(link->GetError().find("fast"), std::string::npos, "names the value");
        NS_TEST_EXPECT_MSG_NE(link->GetError().find("; try: "), std::string::npos, "has advice");
        NS_TEST_EXPECT_MSG_EQ(link->IsLoaded(), false, "nothing is loaded");
        NS_TEST_EXPECT_MSG_EQ(link->Load("/nonexistent.toml"), false, "no such file");

        const std::string three = "[ports.a]\n[ports.b]\n[ports.c]\n[link.ab]\nfrom = \"a\"\n"
                                  "to = \"b\"\n[link.bc]\nfrom = \"b\"\nto = \"c\"\n"
                                  "[link.ca]\nfrom = \"c\"\nto = \"a\"\n";
        std::string error;
        NodeContainer nodes(2);
        SlipringLinkHelper helper;
        auto devices = helper.TryInstallText(nodes.Get(0), nodes.Get(1), three, error);
        NS_TEST_EXPECT_MSG_EQ(devices.GetN(), 0, "three ports have no place on two devices");
        NS_TEST_EXPECT_MSG_EQ(nodes.Get(0)->GetNDevices(), 0, "no device is left behind");
        NS_TEST_EXPECT_MSG_NE(error.find("3 ports"), std::string::npos, error);
        Simulator::Destroy();
    }
};

/// A tag that tests attach to packets.
class NumberTag : public Tag
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::SlipringLinkTestTag")
                                .SetParent<Tag>()
                                .AddConstructor<NumberTag>();
        return tid;
    }

    TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    uint32_t GetSerializedSize() const override
    {
        return 4;
    }

    void Serialize(TagBuffer buffer) const override
    {
        buffer.WriteU32(number);
    }

    void Deserialize(TagBuffer buffer) override
    {
        number = buffer.ReadU32();
    }

    void Print(std::ostream& out) const override
    {
        out << number;
    }

    uint32_t number{0};
};

/// Two nodes with a link from a text.
class LinkedNodes
{
  public:
    explicit LinkedNodes(const std::string& toml, const std::string& rate = "10Gbps")
        : nodes(2)
    {
        SlipringLinkHelper helper;
        helper.SetDeviceAttribute("DataRate", StringValue(rate));
        std::string error;
        devices = helper.TryInstallText(nodes.Get(0), nodes.Get(1), toml, error);
        NS_ABORT_MSG_IF(devices.GetN() != 2, error);
        channel = DynamicCast<SlipringLinkChannel>(devices.Get(0)->GetChannel());
        channel->TraceConnectWithoutContext("Drop", MakeCallback(&LinkedNodes::Drop, this));
        nodes.Get(1)->RegisterProtocolHandler(MakeCallback(&LinkedNodes::Receive, this),
                                              0,
                                              devices.Get(1));
    }

    ~LinkedNodes()
    {
        Simulator::Destroy();
    }

    /// Sends an IPv4 packet from the first node, now.
    void Send(uint32_t size, uint32_t number)
    {
        NumberTag tag;
        tag.number = number;
        Ptr<Packet> packet = Create<Packet>(size);
        packet->AddPacketTag(tag);
        packet->AddByteTag(tag);
        devices.Get(0)->Send(packet, devices.Get(1)->GetAddress(), 0x0800);
    }

    struct Received
    {
        uint64_t ns;
        uint32_t size;
        uint32_t number;
        bool changed; //!< Whether a byte is no longer 0.
        bool byteTag; //!< Whether the byte tag is there.
    };

    NodeContainer nodes;
    NetDeviceContainer devices;
    Ptr<SlipringLinkChannel> channel;
    std::vector<Received> received;
    std::vector<std::string> drops;

  private:
    void Receive(Ptr<NetDevice>,
                 Ptr<const Packet> packet,
                 uint16_t,
                 const Address&,
                 const Address&,
                 NetDevice::PacketType)
    {
        NumberTag tag;
        NumberTag byteTag;
        packet->PeekPacketTag(tag);
        std::vector<uint8_t> bytes(packet->GetSize());
        packet->CopyData(bytes.data(), bytes.size());
        const bool changed = std::any_of(bytes.begin(), bytes.end(), [](auto b) { return b != 0; });
        const uint64_t ns = Simulator::Now().GetNanoSeconds();
        const bool hasByteTag = packet->FindFirstMatchingByteTag(byteTag);
        received.push_back({ns, packet->GetSize(), tag.number, changed, hasByteTag});
    }

    void Drop(Ptr<const Packet>, const std::string& cause, const std::string& link)
    {
        drops.push_back(cause + "@" + link);
    }
};

/// The time of a packet is that of its frame on the wire.
class ChannelTimesAreThoseOfTheFrame : public TestCase
{
  public:
    ChannelTimesAreThoseOfTheFrame()
        : TestCase("device, line and delay add up for the Ethernet frame, to the nanosecond")
    {
    }

  private:
    void DoRun() override
    {
        LinkedNodes linked("[link.up]\nrate = \"8Mbit\"\ndelay = \"20ms\"\n[link.down]\n", "1Gbps");
        linked.Send(986, 7);
        linked.Send(486, 8);
        Simulator::Run();
        NS_TEST_ASSERT_MSG_EQ(linked.received.size(), 2, "both arrive");
        // The device sends 986 + 2 bytes at 8 ns each; the line 986 + 14 bytes at 1 us each.
        const auto first = linked.received[0];
        NS_TEST_EXPECT_MSG_EQ(first.ns, 988 * 8 + 1'000'000 + 20'000'000, "the first");
        NS_TEST_EXPECT_MSG_EQ(linked.received[1].ns, first.ns + 500'000, "waits for the line");
        NS_TEST_EXPECT_MSG_EQ(first.size, 986, "without the header of PPP");
        NS_TEST_EXPECT_MSG_EQ(first.number, 7, "with its tag");
        NS_TEST_EXPECT_MSG_EQ(first.changed, false, "unchanged");
        NS_TEST_EXPECT_MSG_EQ(linked.channel->GetNInside(), 0, "nothing is left inside");
    }
};

/// Losses, copies and bit errors.
class ChannelOutcomes : public TestCase
{
  public:
    ChannelOutcomes()
        : TestCase("each packet is received, copied or traced as lost; changed bytes keep the tags")
    {
    }

  private:
    void DoRun() override
    {
        Losses();
        Copies();
        BitErrors();
        Classes();
    }

    void Losses()
    {
        LinkedNodes linked("[link.up]\nloss = \"nth(3)\"\n[link.down]\n");
        SendAll(linked, 30);
        NS_TEST_EXPECT_MSG_EQ(linked.received.size(), 20, "two of three");
        NS_TEST_EXPECT_MSG_EQ(linked.drops.size(), 10, "one of three");
        NS_TEST_EXPECT_MSG_EQ(linked.drops.at(0), "loss@up", "cause and link are named");
    }

    void Copies()
    {
        LinkedNodes linked("[link.up]\nduplicate = \"const(100%,after=1ms,copies=2)\"\n"
                           "[link.down]\n");
        SendAll(linked, 10);
        NS_TEST_EXPECT_MSG_EQ(linked.received.size(), 30, "each packet and two copies");
        for (const auto& one : linked.received)
        {
            NS_TEST_EXPECT_MSG_EQ(one.byteTag, true, "copies have the tags");
        }
        NS_TEST_EXPECT_MSG_EQ(linked.channel->GetNInside(), 0, "the record ends with the last");
    }

    void BitErrors()
    {
        // Bit errors occur only after the Ethernet header.
        LinkedNodes linked("[link.up]\ncorrupt = \"ber(0.001,from_byte=14)\"\n[link.down]\n");
        SendAll(linked, 50);
        NS_TEST_ASSERT_MSG_EQ(linked.received.size(), 50, "all arrive");
        const auto changed = std::count_if(linked.received.begin(),
                                           linked.received.end(),
                                           [](const auto& one) { return one.changed; });
        NS_TEST_EXPECT_MSG_GT(changed, 40, "0.1 % of 8000 bits: hardly any packet is spared");
        for (uint32_t number = 0; number < 50; number++)
        {
            NS_TEST_EXPECT_MSG_EQ(linked.received[number].number, number, "tags stay");
            NS_TEST_EXPECT_MSG_EQ(linked.received[number].byteTag, true, "byte tags, too");
        }
        // Inverts bits of the EtherType.
        LinkedNodes other("[link.up]\nmangle = \"invert(12,ff,100%)\"\n[link.down]\n");
        SendAll(other, 5);
        NS_TEST_EXPECT_MSG_EQ(other.received.size(), 0, "no protocol takes them");
        NS_TEST_EXPECT_MSG_EQ(other.drops.size(), 5, "they are counted");
        NS_TEST_EXPECT_MSG_EQ(other.drops.at(0), "protocol@up", "by their own cause");
    }

    void Classes()
    {
        // The links get frames with an Ethernet header, so conditions on it can hold.
        LinkedNodes linked("[ports.left]\n[ports.right]\n"
                           "[link.up]\nfrom = \"left\"\nto = \"right\"\n"
                           "[link.slow]\nfrom = \"left\"\nto = \"right\"\ndelay = \"1s\"\n"
                           "[link.down]\nfrom = \"right\"\nto = \"left\"\n"
                           "[[class]]\nmatch = \"ip\"\nuse = \"link.slow\"\n");
        SendAll(linked, 1);
        NS_TEST_ASSERT_MSG_EQ(linked.received.size(), 1, "arrives");
        NS_TEST_EXPECT_MSG_GT(linked.received[0].ns, 1'000'000'000, "by the slow link");
    }

    /// Sends packets at intervals, and runs until all have left.
    void SendAll(LinkedNodes& linked, uint32_t count)
    {
        for (uint32_t number = 0; number < count; number++)
        {
            Simulator::Schedule(MicroSeconds(number * 10),
                                &LinkedNodes::Send,
                                &linked,
                                1000,
                                number);
        }
        Simulator::Run();
    }
};

/// A stack over the channel.
class ChannelCarriesUdp : public TestCase
{
  public:
    ChannelCarriesUdp()
        : TestCase("UDP over a link of 10 Mbps: what fits the line arrives, the rest is lost by name")
    {
    }

  private:
    void DoRun() override
    {
        LinkedNodes linked("[link.up]\nrate = \"10Mbit\"\nqueue = \"droptail(packets=20)\"\n"
                           "[link.down]\n");
        InternetStackHelper().Install(linked.nodes);
        const auto addresses =
            Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(linked.devices);
        const Address sinkAddress = InetSocketAddress(addresses.GetAddress(1), 9);
        auto sinks = PacketSinkHelper("ns3::UdpSocketFactory", sinkAddress)
                         .Install(linked.nodes.Get(1));
        OnOffHelper source("ns3::UdpSocketFactory", sinkAddress);
        source.SetConstantRate(DataRate("20Mbps"), 958);
        auto sources = source.Install(linked.nodes.Get(0));
        sources.Start(Time(0));
        sources.Stop(Seconds(1));
        Simulator::Run();
        const uint64_t frames = DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx() / 958;
        const auto seen = linked.channel->GetLink()->GetCounters(0);
        // A frame has 958 + 8 + 20 + 14 = 1000 bytes. So 1250 frames leave in the second in which
        // packets are sent, and the 20 in the queue leave after it.
        NS_TEST_EXPECT_MSG_GT(frames, 1250, "the line is busy all the time");
        NS_TEST_EXPECT_MSG_LT(frames, 1275, "and no faster than its rate");
        NS_TEST_EXPECT_MSG_EQ(seen.output, frames, "what left has arrived");
        NS_TEST_EXPECT_MSG_EQ(seen.input, frames + linked.drops.size(), "the rest was lost");
        NS_TEST_EXPECT_MSG_EQ(linked.drops.at(0), "queue@up", "in the queue");
    }
};

/// The ways in which a program can end.
class ChannelEndsCleanly : public TestCase
{
  public:
    ChannelEndsCleanly()
        : TestCase("Destroy without Run, and with packets inside")
    {
    }

  private:
    void DoRun() override
    {
        {
            LinkedNodes never("[link.up]\ndelay = \"1s\"\n[link.down]\n");
            never.Send(100, 1);
        }
        LinkedNodes linked("[link.up]\ndelay = \"1s\"\n[link.down]\n");
        linked.Send(100, 1);
        Simulator::Stop(MilliSeconds(500));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(linked.channel->GetNInside(), 1, "still inside");
        NS_TEST_EXPECT_MSG_EQ(linked.received.size(), 0, "not received");
    }
};

/// Links that are full.
class LinkCountsRefusedFrames : public TestCase
{
  public:
    LinkCountsRefusedFrames()
        : TestCase("frames beyond MaxBytes are lost by name, and counted")
    {
    }

  private:
    void DoRun() override
    {
        auto link = CreateObject<SlipringLink>();
        link->SetAttribute("MaxBytes", UintegerValue(10'000));
        NS_TEST_ASSERT_MSG_EQ(link->Parse("[link.up]\ndelay = \"1s\"\n[link.down]\n"), true, "");
        link->SetLossCallback(MakeCallback(&LinkCountsRefusedFrames::Lose, this));
        const std::vector<uint8_t> frame(936);
        for (uint64_t tag = 0; tag < 15; tag++)
        {
            link->Offer(0, frame.data(), frame.size(), tag);
        }
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_lost, 5, "ten frames of 936 + 64 bytes find room");
        NS_TEST_EXPECT_MSG_EQ(link->GetNRefused(), 5, "the rest is counted");
        NS_TEST_EXPECT_MSG_EQ(link->GetCounters(0).output, 10, "the ten leave");
        Simulator::Destroy();
    }

    void Lose(const SlipringLink::Loss& lost)
    {
        NS_TEST_EXPECT_MSG_EQ(lost.cause, "buffer", "named");
        m_lost++;
    }

    uint32_t m_lost{0};
};

/// The suite.
class SlipringLinkTestSuite : public TestSuite
{
  public:
    SlipringLinkTestSuite()
        : TestSuite("slipring-link", Type::UNIT)
    {
        AddTestCase(new LinkEqualsEngine);
        AddTestCase(new LinkRefusesInvalidText);
        AddTestCase(new LinkCountsRefusedFrames);
        AddTestCase(new ChannelTimesAreThoseOfTheFrame);
        AddTestCase(new ChannelOutcomes);
        AddTestCase(new ChannelCarriesUdp);
        AddTestCase(new ChannelEndsCleanly);
    }
};

const SlipringLinkTestSuite g_slipringLinkTestSuite; //!< Registers the suite.

} // namespace
