/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-switch.h"

#include "ns3/log.h"
#include "ns3/simulator.h"

#include <slipring.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringSwitch");

namespace
{

/// Returns the switches of this process, by name
std::map<std::string, std::weak_ptr<SlipringSwitch>>&
Switches()
{
    static std::map<std::string, std::weak_ptr<SlipringSwitch>> switches;
    return switches;
}

} // namespace

bool
SlipringSwitch::IsPortName(const std::string& portName)
{
    return portName.rfind("vale", 0) == 0 && portName.find(':') != std::string::npos &&
           portName.find_first_of("{}") == std::string::npos;
}

std::shared_ptr<SlipringSwitch>
SlipringSwitch::Find(const std::string& portName, SlipringError& error)
{
    std::string name = portName.substr(0, portName.find(':'));
    std::shared_ptr<SlipringSwitch> found = Switches()[name].lock();
    if (found)
    {
        return found;
    }
    slipring_switch* handle = nullptr;
    int status = slipring_switch_create(name.c_str(), nullptr, &handle);
    if (status < 0)
    {
        error = SlipringError::FromLibrary(status);
        return nullptr;
    }
    found.reset(new SlipringSwitch(handle));
    Switches()[name] = found;
    return found;
}

SlipringSwitch::SlipringSwitch(slipring_switch* handle)
    : m_switch(handle)
{
}

SlipringSwitch::~SlipringSwitch()
{
    slipring_switch_free(m_switch);
}

std::unique_ptr<SlipringPort>
SlipringSwitch::Open(const std::string& portName,
                     const SlipringPortOptions& options,
                     SlipringError& error)
{
    return SlipringPort::OpenAtSwitch(m_switch,
                                      portName.substr(portName.find(':') + 1),
                                      options,
                                      error);
}

void
SlipringSwitch::Join(uint32_t number, std::function<void()> serve)
{
    m_serve[number] = std::move(serve);
}

void
SlipringSwitch::Leave(uint32_t number)
{
    m_serve.erase(number);
}

void
SlipringSwitch::ScheduleForward()
{
    if (m_pending)
    {
        return;
    }
    m_pending = true;
    // The event keeps the switch alive, so that frames of a device that no longer exists still
    // move.
    auto self = shared_from_this();
    Simulator::ScheduleWithContext(Simulator::NO_CONTEXT, Time(0), [self]() { self->Forward(); });
}

void
SlipringSwitch::Forward()
{
    m_pending = false;
    int status = slipring_switch_forward(m_switch, Simulator::Now().GetNanoSeconds());
    if (status < 0)
    {
        NS_LOG_ERROR(SlipringError::FromLibrary(status));
        return;
    }
    uint32_t number = 0;
    uint32_t events = 0;
    while (slipring_switch_take_ready(m_switch, &number, &events) == 1)
    {
        auto found = m_serve.find(number);
        if (found != m_serve.end())
        {
            found->second();
        }
    }
}

} // namespace ns3
