/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_NET_DEVICE_IMPL_H
#define SLIPRING_NET_DEVICE_IMPL_H

/**
 * \file
 * \ingroup slipring-net-device
 * The inner types of SlipringNetDevice. Only its source files include this header.
 */

#include "slipring-net-device.h"
#include "slipring-rx-queue.h"
#include "slipring-tx-queue.h"

#include "ns3/event-impl.h"

namespace ns3
{

/// Bytes of an Ethernet header with LLC/SNAP, or with two VLAN tags
constexpr std::size_t SLIPRING_MAX_HEADER = 22;

/// A queue of the port
struct SlipringNetDevice::Queue
{
    /**
     * \param port the port
     * \param number number of the queue
     * \param shared whether another process may write the rings
     */
    Queue(slipring_port* port, uint32_t number, bool shared)
        : tx(port, number, shared),
          rx(port, number, shared)
    {
    }

    SlipringTxQueue tx;   //!< its tx ring
    SlipringRxQueue rx;   //!< its rx ring
    bool stopped{false};  //!< whether the device has stopped the queue
    bool stalled{false};  //!< whether a stall was reported, and nothing has been sent since
    bool overrun{false};  //!< whether the rx ring was full, and each burst has dropped frames since
    Time lastProgress{0}; //!< when a frame last left the ring, or entered the empty ring
    uint32_t burst{0};    //!< frames of the current burst
};

/**
 * The object by which events and the poll thread refer to a device. They share it by
 * std::shared_ptr, whose count of references is atomic, unlike that of ns3::Ptr.
 */
struct SlipringNetDevice::Guard
{
    SlipringNetDevice* device; //!< null after the disposal; for the simulator thread only
};

/// An event that calls a function of a device, if the device still exists
class SlipringNetDevice::Event : public EventImpl
{
  public:
    /**
     * \param guard guard of the device
     * \param function the function
     */
    Event(std::shared_ptr<Guard> guard, void (SlipringNetDevice::*function)())
        : m_guard(std::move(guard)),
          m_function(function)
    {
    }

  protected:
    void Notify() override
    {
        if (m_guard->device)
        {
            (m_guard->device->*m_function)();
        }
    }

  private:
    std::shared_ptr<Guard> m_guard;           //!< guard of the device
    void (SlipringNetDevice::*m_function)();  //!< the function
};

} // namespace ns3

#endif /* SLIPRING_NET_DEVICE_IMPL_H */
