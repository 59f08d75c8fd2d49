/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-tags.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(SlipringTimestampTag);
NS_OBJECT_ENSURE_REGISTERED(SlipringTxQueueTag);

TypeId
SlipringTimestampTag::GetTypeId()
{
    static TypeId tid = TypeId("ns3::SlipringTimestampTag")
                            .SetParent<Tag>()
                            .SetGroupName("FdNetDevice")
                            .AddConstructor<SlipringTimestampTag>();
    return tid;
}

SlipringTimestampTag::SlipringTimestampTag()
    : m_ns(0)
{
}

SlipringTimestampTag::SlipringTimestampTag(Time time)
    : m_ns(time.GetNanoSeconds())
{
}

Time
SlipringTimestampTag::GetTime() const
{
    return NanoSeconds(m_ns);
}

TypeId
SlipringTimestampTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint32_t
SlipringTimestampTag::GetSerializedSize() const
{
    return sizeof(uint64_t);
}

void
SlipringTimestampTag::Serialize(TagBuffer buffer) const
{
    buffer.WriteU64(static_cast<uint64_t>(m_ns));
}

void
SlipringTimestampTag::Deserialize(TagBuffer buffer)
{
    m_ns = static_cast<int64_t>(buffer.ReadU64());
}

void
SlipringTimestampTag::Print(std::ostream& os) const
{
    os << "received=" << m_ns << "ns";
}

TypeId
SlipringTxQueueTag::GetTypeId()
{
    static TypeId tid = TypeId("ns3::SlipringTxQueueTag")
                            .SetParent<Tag>()
                            .SetGroupName("FdNetDevice")
                            .AddConstructor<SlipringTxQueueTag>();
    return tid;
}

SlipringTxQueueTag::SlipringTxQueueTag()
    : m_queue(0)
{
}

SlipringTxQueueTag::SlipringTxQueueTag(uint32_t queue)
    : m_queue(queue)
{
}

uint32_t
SlipringTxQueueTag::GetQueue() const
{
    return m_queue;
}

TypeId
SlipringTxQueueTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint32_t
SlipringTxQueueTag::GetSerializedSize() const
{
    return sizeof(uint32_t);
}

void
SlipringTxQueueTag::Serialize(TagBuffer buffer) const
{
    buffer.WriteU32(m_queue);
}

void
SlipringTxQueueTag::Deserialize(TagBuffer buffer)
{
    m_queue = buffer.ReadU32();
}

void
SlipringTxQueueTag::Print(std::ostream& os) const
{
    os << "queue=" << m_queue;
}

} // namespace ns3
