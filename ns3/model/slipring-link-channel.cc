// SPDX-License-Identifier: GPL-2.0-only

#include "slipring-link-channel.h"

#include "ns3/abort.h"
#include "ns3/ethernet-header.h"
#include "ns3/log.h"
#include "ns3/mac48-address.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/pointer.h"
#include "ns3/ppp-header.h"
#include "ns3/simulator.h"

#include <cstring>
#include <memory>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringLinkChannel");
NS_OBJECT_ENSURE_REGISTERED(SlipringLinkChannel);

namespace
{

/// Bytes of an Ethernet header.
constexpr uint32_t ETHERNET_HEADER_LEN = 14;

/// A protocol that point-to-point devices carry.
struct Protocol
{
    uint16_t ppp;       //!< Number in the PPP header (RFC 1661, section 2; RFC 5072, section 3).
    uint16_t etherType; //!< EtherType.
};

/// IPv4 and IPv6: PointToPointNetDevice has no others.
constexpr Protocol PROTOCOLS[] = {{0x0021, 0x0800}, {0x0057, 0x86dd}};

/// \return the EtherType for a PPP protocol; 0: there is none
uint16_t
ToEtherType(uint16_t ppp)
{
    for (const auto& protocol : PROTOCOLS)
    {
        if (protocol.ppp == ppp)
        {
            return protocol.etherType;
        }
    }
    return 0;
}

/// \return the PPP protocol for an EtherType; 0: there is none
uint16_t
ToPpp(uint16_t etherType)
{
    for (const auto& protocol : PROTOCOLS)
    {
        if (protocol.etherType == etherType)
        {
            return protocol.ppp;
        }
    }
    return 0;
}

/// \return a new tag of the type of \p item, with the same contents
template <typename Item>
std::unique_ptr<Tag>
CopyTag(const Item& item)
{
    std::unique_ptr<ObjectBase> made(item.GetTypeId().GetConstructor()());
    std::unique_ptr<Tag> tag(dynamic_cast<Tag*>(made.get()));
    if (tag)
    {
        made.release();
        item.GetTag(*tag);
    }
    return tag;
}

/// Copies the tags of the packet \p from to the packet \p to. Byte tags cover the same range of
/// bytes.
void
CopyTags(Ptr<const Packet> from, Ptr<Packet> to)
{
    for (auto packetTags = from->GetPacketTagIterator(); packetTags.HasNext();)
    {
        if (auto tag = CopyTag(packetTags.Next()))
        {
            to->AddPacketTag(*tag);
        }
    }
    for (auto byteTags = from->GetByteTagIterator(); byteTags.HasNext();)
    {
        const auto item = byteTags.Next();
        if (auto tag = CopyTag(item))
        {
            to->AddByteTag(*tag, item.GetStart(), item.GetEnd());
        }
    }
}

} // namespace

TypeId
SlipringLinkChannel::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::SlipringLinkChannel")
            .SetParent<PointToPointChannel>()
            .SetGroupName("SlipringNetDevice")
            .AddConstructor<SlipringLinkChannel>()
            .AddAttribute("Link",
                          "The engine. By default, Load and Parse make one.",
                          PointerValue(),
                          MakePointerAccessor(&SlipringLinkChannel::m_link),
                          MakePointerChecker<SlipringLink>())
            .AddTraceSource("Drop",
                            "A packet was lost in the links.",
                            MakeTraceSourceAccessor(&SlipringLinkChannel::m_dropTrace),
                            "ns3::SlipringLinkChannel::DropTracedCallback")
            .AddTraceSource("Deliver",
                            "A packet reaches the device at the other end.",
                            MakeTraceSourceAccessor(&SlipringLinkChannel::m_deliverTrace),
                            "ns3::SlipringLinkChannel::DeliverTracedCallback");
    return tid;
}

SlipringLinkChannel::SlipringLinkChannel()
    : m_nextTag(0)
{
}

SlipringLinkChannel::~SlipringLinkChannel()
{
}

void
SlipringLinkChannel::DoDispose()
{
    if (m_link)
    {
        m_link->Dispose();
    }
    m_packets.clear();
    PointToPointChannel::DoDispose();
}

bool
SlipringLinkChannel::Load(const std::string& path)
{
    return Connect(GetLink()->Load(path));
}

bool
SlipringLinkChannel::Parse(const std::string& toml)
{
    return Connect(GetLink()->Parse(toml));
}

bool
SlipringLinkChannel::Connect(bool loaded)
{
    m_exitDevice.clear();
    m_error = loaded ? "" : m_link->GetError();
    if (loaded && m_link->GetNEntries() != 2)
    {
        m_error = "the file has " + std::to_string(m_link->GetNEntries()) +
                  " ports, and a point-to-point channel has two ends; try: two ports, or "
                  "SlipringLink, which has any number";
    }
    for (uint32_t exit = 0; m_error.empty() && exit < m_link->GetNExits(); exit++)
    {
        const std::string name = m_link->GetExitName(exit);
        m_exitDevice.push_back(name == m_link->GetEntryName(0) ? 0 : 1);
    }
    if (!m_error.empty())
    {
        return false;
    }
    m_link->SetDeliverCallback(MakeCallback(&SlipringLinkChannel::Deliver, this));
    m_link->SetLossCallback(MakeCallback(&SlipringLinkChannel::Lose, this));
    return true;
}

const std::string&
SlipringLinkChannel::GetError() const
{
    return m_error;
}

Ptr<SlipringLink>
SlipringLinkChannel::GetLink()
{
    if (!m_link)
    {
        m_link = CreateObject<SlipringLink>();
    }
    return m_link;
}

std::size_t
SlipringLinkChannel::GetNInside() const
{
    return m_packets.size();
}

bool
SlipringLinkChannel::TransmitStart(Ptr<const Packet> p,
                                   Ptr<PointToPointNetDevice> src,
                                   Time txTime)
{
    NS_LOG_FUNCTION(this << p << src << txTime);
    NS_ABORT_MSG_IF(m_exitDevice.empty(),
                    "the channel has no links: call Load or Parse, or use SlipringLinkHelper");
    NS_ABORT_MSG_UNLESS(GetDelay().IsZero(),
                        "Delay is set, and the links have a delay of their own: leave it 0, and "
                        "write it into the file");
    const uint32_t source = src == GetSource(0) ? 0 : 1;
    Simulator::Schedule(txTime, &SlipringLinkChannel::Arrive, this, p->Copy(), source);
    return true;
}

std::vector<uint8_t>
SlipringLinkChannel::ToFrame(Ptr<const Packet> packet, uint32_t source) const
{
    PppHeader ppp;
    Ptr<Packet> frame = packet->Copy();
    frame->RemoveHeader(ppp);
    EthernetHeader ethernet(false);
    ethernet.SetSource(Mac48Address::ConvertFrom(GetSource(source)->GetAddress()));
    ethernet.SetDestination(Mac48Address::ConvertFrom(GetDestination(source)->GetAddress()));
    ethernet.SetLengthType(ToEtherType(ppp.GetProtocol()));
    frame->AddHeader(ethernet);
    std::vector<uint8_t> bytes(frame->GetSize());
    frame->CopyData(bytes.data(), bytes.size());
    return bytes;
}

void
SlipringLinkChannel::Arrive(Ptr<const Packet> packet, uint32_t source)
{
    const std::vector<uint8_t> frame = ToFrame(packet, source);
    const uint64_t tag = m_nextTag++;
    m_packets[tag] = PacketInside{packet, frame};
    // Devices are numbered as ports are, and each port is an entry.
    m_link->Offer(source, frame.data(), frame.size(), tag);
}

SlipringLinkChannel::PacketInside
SlipringLinkChannel::Outcome(uint64_t tag, uint32_t remaining)
{
    const auto found = m_packets.find(tag);
    NS_ABORT_MSG_IF(found == m_packets.end(), "the links report a packet that is not inside");
    if (remaining > 0)
    {
        return found->second;
    }
    PacketInside inside = std::move(found->second);
    m_packets.erase(found);
    return inside;
}

void
SlipringLinkChannel::Lose(const SlipringLink::Loss& loss)
{
    const PacketInside inside = Outcome(loss.tag, loss.remaining);
    m_dropTrace(inside.packet, loss.cause, loss.link);
}

void
SlipringLinkChannel::Deliver(const SlipringLink::Delivery& delivery)
{
    const PacketInside inside = Outcome(delivery.tag, delivery.remaining);
    Ptr<Packet> packet = inside.packet->Copy();
    const std::vector<uint8_t>& sent = inside.frame;
    if (delivery.size != sent.size() || std::memcmp(delivery.data, sent.data(), sent.size()) != 0)
    {
        const uint8_t* frame = delivery.data;
        const uint16_t protocol =
            delivery.size < ETHERNET_HEADER_LEN ? 0 : ToPpp(frame[12] << 8 | frame[13]);
        if (protocol == 0)
        {
            // Bit errors have changed the EtherType, so no protocol can receive the packet.
            m_dropTrace(inside.packet, "protocol", m_link->GetLinkName(delivery.link));
            return;
        }
        packet = Create<Packet>(frame + ETHERNET_HEADER_LEN, delivery.size - ETHERNET_HEADER_LEN);
        PppHeader ppp;
        ppp.SetProtocol(protocol);
        packet->AddHeader(ppp);
        CopyTags(inside.packet, packet);
    }
    const uint32_t device = m_exitDevice[delivery.exit];
    m_deliverTrace(packet, device, delivery.arrival);
    Ptr<PointToPointNetDevice> receiver = GetPointToPointDevice(device);
    Simulator::ScheduleWithContext(receiver->GetNode()->GetId(),
                                   Time(0),
                                   &PointToPointNetDevice::Receive,
                                   receiver,
                                   packet);
}

} // namespace ns3
