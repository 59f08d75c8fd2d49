/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_SWITCH_H
#define SLIPRING_SWITCH_H

#include "slipring-port.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

struct slipring_switch;

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief A learning switch of this process, whose frames move in simulator events.
 *
 * \verbatim
   device A: tx sync -> ScheduleForward -> event: slipring_switch_forward -> Service of B and C
                        at most one is pending       all frames of all ports
   \endverbatim
 *
 * Devices find it by its name. It exists as long as one of them has a port, or a forwarding event
 * is pending.
 */
class SlipringSwitch : public std::enable_shared_from_this<SlipringSwitch>
{
  public:
    /**
     * \param portName name of a port
     * \return whether it is a port of a switch, such as "vale0:a", and no pipe
     */
    static bool IsPortName(const std::string& portName);

    /**
     * Returns the switch of a port. Creates it if no device has a port of it.
     * \param portName name of a port of the switch
     * \param error receives the reason if it cannot be created
     * \return the switch, or null
     */
    static std::shared_ptr<SlipringSwitch> Find(const std::string& portName, SlipringError& error);

    ~SlipringSwitch();
    SlipringSwitch(const SlipringSwitch&) = delete;
    SlipringSwitch& operator=(const SlipringSwitch&) = delete;

    /**
     * Opens a port.
     * \param portName name of the port, with that of the switch
     * \param options how to open it
     * \param error receives the reason if it cannot be opened
     * \return the port, or null
     */
    std::unique_ptr<SlipringPort> Open(const std::string& portName,
                                       const SlipringPortOptions& options,
                                       SlipringError& error);

    /**
     * Serves a port from now on.
     * \param number number of the port
     * \param serve called when frames have arrived, or slots can be freed
     */
    void Join(uint32_t number, std::function<void()> serve);

    /**
     * Serves a port no longer.
     * \param number number of the port
     */
    void Leave(uint32_t number);

    /// Schedules the forwarding of all frames that have been sent, unless it is scheduled already.
    void ScheduleForward();

  private:
    /**
     * \param handle the switch of libslipring, which this object then owns
     */
    explicit SlipringSwitch(slipring_switch* handle);

    /// Forwards all frames that have been sent, and serves the ports.
    void Forward();

    slipring_switch* m_switch; //!< the switch of libslipring
    bool m_pending{false};     //!< whether Forward is scheduled
    std::map<uint32_t, std::function<void()>> m_serve; //!< what serves each port, by its number
};

} // namespace ns3

#endif /* SLIPRING_SWITCH_H */
