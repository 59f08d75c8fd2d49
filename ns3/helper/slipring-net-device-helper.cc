/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-net-device-helper.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/global-value.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <cerrno>
#include <cstring>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringNetDeviceHelper");

SlipringNetDeviceHelper::SlipringNetDeviceHelper()
{
    SetTypeId("ns3::SlipringNetDevice");
    m_factory.SetTypeId("ns3::SlipringNetDevice");
}

SlipringNetDeviceHelper::SlipringNetDeviceHelper(const std::string& portName)
    : SlipringNetDeviceHelper()
{
    SetPortName(portName);
}

void
SlipringNetDeviceHelper::SetAttribute(std::string name, const AttributeValue& value)
{
    // ns-3's netmap device takes its period in µs, as an integer. So an integer is accepted here,
    // too.
    auto micros = dynamic_cast<const UintegerValue*>(&value);
    if (name == "SyncAndNotifyQueuePeriod" && micros)
    {
        m_factory.Set(name, TimeValue(MicroSeconds(micros->Get())));
        return;
    }
    m_factory.Set(name, value);
}

void
SlipringNetDeviceHelper::SetPortName(const std::string& portName)
{
    m_factory.Set("PortName", StringValue(portName));
}

void
SlipringNetDeviceHelper::SetDeviceName(std::string deviceName)
{
    if (deviceName.find_first_of(":{}") != std::string::npos)
    {
        SetPortName(deviceName);
        return;
    }
    // A `-` of an interface's name is written twice in the name of a port.
    std::string portName = "netmap:";
    for (char letter : deviceName)
    {
        portName += letter == '-' ? "--" : std::string(1, letter);
    }
    SetPortName(portName);
}

Ptr<SlipringNetDevice>
SlipringNetDeviceHelper::CreateOpen(const std::string& portName, SlipringError& error) const
{
    Ptr<SlipringNetDevice> device = m_factory.Create<SlipringNetDevice>();
    if (!portName.empty())
    {
        device->SetAttribute("PortName", StringValue(portName));
    }
    error = device->Open();
    if (error)
    {
        device->Dispose();
        return nullptr;
    }
    return device;
}

void
SlipringNetDeviceHelper::Attach(Ptr<Node> node, Ptr<SlipringNetDevice> device)
{
    if (device->GetAddress() == Mac48Address::GetBroadcast())
    {
        device->SetAddress(Mac48Address::Allocate());
    }
    node->AddDevice(device);
    device->AggregateObject(CreateObjectWithAttributes<NetDeviceQueueInterface>(
        "NTxQueues",
        UintegerValue(device->GetNTxQueues())));
}

SlipringInstallResult
SlipringNetDeviceHelper::InstallAll(const NodeContainer& nodes,
                                    const std::vector<std::string>& portNames) const
{
    SlipringInstallResult result;
    std::vector<Ptr<SlipringNetDevice>> devices;
    for (const auto& portName : portNames)
    {
        Ptr<SlipringNetDevice> device = CreateOpen(portName, result.error);
        if (!device)
        {
            for (auto& opened : devices)
            {
                opened->Dispose();
            }
            return result;
        }
        devices.push_back(device);
    }
    for (uint32_t i = 0; i < devices.size(); i++)
    {
        Attach(nodes.Get(i), devices[i]);
        result.devices.Add(devices[i]);
    }
    return result;
}

namespace
{

/// Returns the devices of `result`. Ends the program if `result` holds an error instead.
NetDeviceContainer
OrEnd(const SlipringInstallResult& result)
{
    if (!result)
    {
        NS_FATAL_ERROR(result.error);
    }
    return result.devices;
}

} // namespace

Ptr<NetDevice>
SlipringNetDeviceHelper::InstallPriv(Ptr<Node> node) const
{
    return OrEnd(TryInstall(node)).Get(0);
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstall(Ptr<Node> node) const
{
    return InstallAll(node, {""});
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name) const
{
    static uint32_t number = 0;
    if (name.empty())
    {
        name = "ns3pipe" + std::to_string(number++);
    }
    // A suffix of the name, such as @conf:rings=2, follows the { or } that marks the pipe's end.
    std::size_t suffix = std::min(name.find('@'), name.size());
    std::string pipe = name.substr(0, suffix);
    std::string conf = name.substr(suffix);
    return InstallAll(NodeContainer(a, b), {pipe + "{1" + conf, pipe + "}1" + conf});
}

NetDeviceContainer
SlipringNetDeviceHelper::InstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name) const
{
    return OrEnd(TryInstallPipe(a, b, name));
}

SlipringInstallResult
SlipringNetDeviceHelper::TryInstallSwitch(const NodeContainer& nodes,
                                          const std::string& switchName) const
{
    std::vector<std::string> portNames;
    for (uint32_t i = 0; i < nodes.GetN(); i++)
    {
        portNames.push_back(switchName + ":n" + std::to_string(nodes.Get(i)->GetId()));
    }
    return InstallAll(nodes, portNames);
}

NetDeviceContainer
SlipringNetDeviceHelper::InstallSwitch(const NodeContainer& nodes,
                                       const std::string& switchName) const
{
    return OrEnd(TryInstallSwitch(nodes, switchName));
}

void
SlipringNetDeviceHelper::EnableRealtime(bool bestEffort, Time limit)
{
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Config::SetDefault("ns3::RealtimeSimulatorImpl::SynchronizationMode",
                       StringValue(bestEffort ? "BestEffort" : "HardLimit"));
    Config::SetDefault("ns3::RealtimeSimulatorImpl::HardLimit", TimeValue(limit));
    Config::SetDefault("ns3::SlipringNetDevice::MaxRealtimeLag", TimeValue(limit));
}

void
SlipringEmuFdNetDeviceHelper::SetNetmapMode(bool enable)
{
    m_netmapMode = enable;
}

Ptr<NetDevice>
SlipringEmuFdNetDeviceHelper::InstallPriv(Ptr<Node> node) const
{
    return OrEnd(TryInstall(node)).Get(0);
}

SlipringInstallResult
SlipringEmuFdNetDeviceHelper::TryInstall(Ptr<Node> node) const
{
    if (m_netmapMode)
    {
        SlipringNetDeviceHelper helper;
        helper.SetDeviceName(m_deviceName);
        return helper.TryInstall(node);
    }
    SlipringInstallResult result;
    int fd = OpenSocket(result.error);
    if (fd >= 0)
    {
        close(fd);
        result.devices = NetDeviceContainer(EmuFdNetDeviceHelper::InstallPriv(node));
    }
    return result;
}

int
SlipringEmuFdNetDeviceHelper::CreateFileDescriptor() const
{
    SlipringError error;
    int fd = OpenSocket(error);
    if (fd < 0)
    {
        NS_FATAL_ERROR(error);
    }
    return fd;
}

int
SlipringEmuFdNetDeviceHelper::OpenSocket(SlipringError& error) const
{
    ifreq request;
    std::memset(&request, 0, sizeof(request));
    m_deviceName.copy(request.ifr_name, IFNAMSIZ - 1);
    int fd = socket(PF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    bool isReady = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    // The flags are changed only if necessary, because this takes more than cap_net_raw.
    if (isReady && !(request.ifr_flags & IFF_PROMISC))
    {
        request.ifr_flags |= IFF_PROMISC;
        isReady = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    }
    if (isReady)
    {
        return fd;
    }
    error.kind = SlipringError::MACHINE;
    error.message = m_deviceName + ": no packet socket: " + std::strerror(errno);
    error.help = "an interface of `ip link`, and root or: sudo setcap cap_net_raw,cap_net_admin+ep "
                 "on this program";
    if (fd >= 0)
    {
        close(fd);
    }
    return -1;
}

} // namespace ns3
