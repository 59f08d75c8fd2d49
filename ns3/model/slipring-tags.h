/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_TAGS_H
#define SLIPRING_TAGS_H

#include "ns3/nstime.h"
#include "ns3/tag.h"

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief When a packet was received. Present if the attribute Timestamping is not None.
 */
class SlipringTimestampTag : public Tag
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    SlipringTimestampTag();

    /**
     * \param time when the packet was received
     */
    explicit SlipringTimestampTag(Time time);

    /**
     * \return when the packet was received: time of the real-time clock since 1970; the time of
     *         the simulation if simulator events serve the port
     */
    Time GetTime() const;

    TypeId GetInstanceTypeId() const override;
    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer buffer) const override;
    void Deserialize(TagBuffer buffer) override;
    void Print(std::ostream& os) const override;

  private:
    int64_t m_ns; //!< the time in ns
};

/**
 * \ingroup slipring-net-device
 * \brief The tx queue that was selected for a packet. The device removes the tag.
 */
class SlipringTxQueueTag : public Tag
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    SlipringTxQueueTag();

    /**
     * \param queue number of the queue
     */
    explicit SlipringTxQueueTag(uint32_t queue);

    /**
     * \return number of the queue
     */
    uint32_t GetQueue() const;

    TypeId GetInstanceTypeId() const override;
    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer buffer) const override;
    void Deserialize(TagBuffer buffer) override;
    void Print(std::ostream& os) const override;

  private:
    uint32_t m_queue; //!< number of the queue
};

} // namespace ns3

#endif /* SLIPRING_TAGS_H */
