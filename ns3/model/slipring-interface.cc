/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-interface.h"

#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ns3
{

std::string
SlipringInterfaceOf(const std::string& portName, const std::string& kind)
{
    if (kind != "packet" && kind != "xdp" && kind != "tap")
    {
        return "";
    }
    std::size_t colon = portName.find(':');
    std::string rest = colon == std::string::npos ? portName : portName.substr(colon + 1);
    rest = rest.substr(0, rest.find_first_of("@/{}^*"));
    std::string name;
    for (std::size_t i = 0; i < rest.size(); i++)
    {
        // `--` is a `-` of the name; a single one begins the number of a queue.
        if (rest[i] == '-' && (i + 1 >= rest.size() || rest[++i] != '-'))
        {
            break;
        }
        name += rest[i];
    }
    return name;
}

bool
SlipringInterfaceIsUp(const std::string& interface)
{
    ifreq request;
    std::memset(&request, 0, sizeof(request));
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool isUp = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0 &&
                (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
    if (fd >= 0)
    {
        close(fd);
    }
    return isUp;
}

int
SlipringOpenLinkMonitor()
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    sockaddr_nl address;
    std::memset(&address, 0, sizeof(address));
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) < 0)
    {
        close(fd);
        fd = -1;
    }
    return fd;
}

} // namespace ns3
