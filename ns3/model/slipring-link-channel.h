// SPDX-License-Identifier: GPL-2.0-only
//
// A point-to-point channel whose two directions are emulated links from a TOML file.

#ifndef SLIPRING_LINK_CHANNEL_H
#define SLIPRING_LINK_CHANNEL_H

#include "slipring-link.h"

#include "ns3/point-to-point-net-device.h"
// Must follow the header of the device, because the header of the channel only declares the device.
#include "ns3/point-to-point-channel.h"
#include "ns3/traced-callback.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace ns3
{

class Packet;

/**
 * \ingroup slipring-net-device
 * A PointToPointChannel with the links of `slipring emulate`.
 *
 * ```text
 *   device 0  = first port of the file   --  [link.up]    ->  second port = device 1
 *                                        <-  [link.down]  --
 * ```
 *
 * 1. The device serialises a packet at its own DataRate: that of the emulator's network card.
 * 2. When its last bit has left, the packet arrives at the links as an Ethernet frame: 14 bytes of
 *    header, with the addresses of the two devices, instead of the 2 bytes of PPP. Lengths, classes
 *    and bit errors are therefore those on the wire.
 * 3. At its release time, the other device receives the packet. It is the packet that was sent,
 *    with its tags; if the links have changed bytes, a new packet with the same tags.
 *
 * The Delay of the base class must stay 0: the delay is in the file. The base class's trace source
 * TxRxPointToPoint never fires, since a receipt time is not known when a packet is sent.
 *
 * Use SlipringLinkHelper to install it.
 */
class SlipringLinkChannel : public PointToPointChannel
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();
    SlipringLinkChannel();
    ~SlipringLinkChannel() override;

    /**
     * Reads the links from a file.
     * \param path the file, with two ports
     * \return false if it is invalid; GetError says why
     */
    bool Load(const std::string& path);
    /**
     * Reads the links from a text in the same format.
     * \param toml the text
     * \return false if it is invalid
     */
    bool Parse(const std::string& toml);
    /// \return what failed last, why, and what to try next
    const std::string& GetError() const;
    /// \return the engine, for its counters
    Ptr<SlipringLink> GetLink();
    /// \return the number of packets that have neither been delivered nor lost yet
    std::size_t GetNInside() const;

    bool TransmitStart(Ptr<const Packet> p, Ptr<PointToPointNetDevice> src, Time txTime) override;

    /**
     * TracedCallback signature for lost packets.
     *
     * \param [in] packet the packet, with its PPP header
     * \param [in] cause name of the cause, such as "queue"
     * \param [in] link name of the link; empty: no link accepted the packet
     */
    typedef void (*DropTracedCallback)(Ptr<const Packet> packet,
                                       const std::string& cause,
                                       const std::string& link);
    /**
     * TracedCallback signature for packets that reach the other end.
     *
     * \param [in] packet the packet, with its PPP header
     * \param [in] device number of the device that receives it
     * \param [in] arrival when it had arrived at the link
     */
    typedef void (*DeliverTracedCallback)(Ptr<const Packet> packet, uint32_t device, Time arrival);

  protected:
    void DoDispose() override;

  private:
    /// A packet between the devices.
    struct PacketInside
    {
        Ptr<const Packet> packet;   //!< The packet as it was sent.
        std::vector<uint8_t> frame; //!< The same as an Ethernet frame, as the links received it.
    };

    /**
     * Finds the devices' entries, and the exits' devices.
     * \param loaded whether the links were loaded
     * \return false if they were not, or the file does not have two ports
     */
    bool Connect(bool loaded);
    /// Passes a packet to the links when its last bit has left device \p source.
    void Arrive(Ptr<const Packet> packet, uint32_t source);
    /// Delivers a packet to the device at the other end.
    void Deliver(const SlipringLink::Delivery& delivery);
    /// Reports that a packet was lost.
    void Lose(const SlipringLink::Loss& loss);
    /// \return a packet from device \p source as an Ethernet frame
    std::vector<uint8_t> ToFrame(Ptr<const Packet> packet, uint32_t source) const;
    /// \return the record of a packet. Frees the record if \p remaining, the number of outcomes to
    /// come, is 0.
    PacketInside Outcome(uint64_t tag, uint32_t remaining);

    Ptr<SlipringLink> m_link;                              //!< The engine.
    std::string m_error;                                   //!< What failed last.
    std::vector<uint32_t> m_exitDevice;                    //!< The device at each exit.
    uint64_t m_nextTag;                                    //!< The tag of the next packet.
    std::unordered_map<uint64_t, PacketInside> m_packets;  //!< Packets inside, by tag.
    TracedCallback<Ptr<const Packet>, const std::string&, const std::string&> m_dropTrace; //!< Drop
    TracedCallback<Ptr<const Packet>, uint32_t, Time> m_deliverTrace; //!< Deliver
};

} // namespace ns3

#endif // SLIPRING_LINK_CHANNEL_H
